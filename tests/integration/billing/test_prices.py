"""Prices and shares hold from their moment on and are never edited."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.errors import PriceInThePast, UnsoundPrice
from portal.billing.models import PriceVersion, ShareVersion
from portal.billing.rules.rating import Terms
from portal.billing.selectors import prices as selectors
from portal.billing.selectors.shares import share_history
from portal.billing.services import prices
from portal.core.errors import Conflict
from tests.factories.billing import DELIVERED, TERMS, EarningProviderFactory, PricedModelFactory

pytestmark = pytest.mark.django_db
DEARER = Terms(300_000_000, 50_000_000, 900_000_000)
HOUR = timedelta(hours=1)


def set_price(model, terms=TERMS, **changes):
    return prices.set_price(model=model, terms=terms, **{"actor": SYSTEM_ACTOR, "now": DELIVERED} | changes)


def set_share(provider, bps, **changes):
    given = {"actor": SYSTEM_ACTOR, "now": DELIVERED} | changes
    return prices.set_share(provider=provider, share_bps=bps, **given)


def test_a_price_holds_from_its_moment_on():
    model = PricedModelFactory()
    first = set_price(model)
    second = set_price(model, DEARER, effective_from=DELIVERED + HOUR)

    assert (first.version, second.version) == (1, 2)
    assert selectors.prices_at(at=DELIVERED + HOUR - timedelta(microseconds=1))[model.pk] == first
    assert selectors.prices_at(at=DELIVERED + HOUR)[model.pk] == second
    assert selectors.prices_at(at=DELIVERED + HOUR)[model.pk] == second
    assert list(selectors.all_upcoming(now=DELIVERED)) == [second]
    assert list(selectors.price_history(model_id=model.pk)) == [second, first]


def test_before_its_first_price_a_model_cannot_be_sold():
    model = PricedModelFactory()
    set_price(model)

    assert selectors.prices_at(at=DELIVERED - HOUR) == {}


def test_who_set_a_price_is_recorded():
    model = PricedModelFactory()
    set_price(model, actor=Actor("user_operator"))

    event = AuditEvent.objects.get(event="price.set")
    assert (event.actor, event.subject, event.detail["version"]) == ("user_operator", model.public_id, 1)


@pytest.mark.parametrize(
    "terms",
    [
        Terms(-1, 0, 0),
        Terms(0, -1, 0),
        Terms(0, 0, -1),
        Terms(0, 0, 0, -1),
        Terms(prices.HIGHEST_NANO + 1, 0, 0),
        Terms(1, 2, 0),
    ],
)
def test_an_unsound_price_is_refused(terms):
    with pytest.raises(UnsoundPrice):
        set_price(PricedModelFactory(), terms)

    assert not PriceVersion.objects.exists()


def test_no_price_reaches_into_the_past():
    with pytest.raises(PriceInThePast):
        set_price(PricedModelFactory(), effective_from=DELIVERED - timedelta(microseconds=1))

    assert not PriceVersion.objects.exists()


def test_two_prices_do_not_share_a_moment():
    model = PricedModelFactory()
    set_price(model)

    with pytest.raises(Conflict):
        set_price(model, DEARER)

    assert PriceVersion.objects.get().version == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_priceversion SET prompt_nano_per_mtok = 1",
        "DELETE FROM billing_priceversion",
        "UPDATE billing_shareversion SET share_bps = 1",
        "DELETE FROM billing_shareversion",
    ],
)
def test_no_version_is_edited(statement):
    set_price(PricedModelFactory())
    set_share(None, 7000)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_provider_has_its_own_share_or_the_pools(settings):
    settings.PLATFORM_FEE_BPS = 2500
    special, other = EarningProviderFactory(), EarningProviderFactory()

    assert selectors.share_at(provider_id=special.pk, at=DELIVERED) == 7500
    set_share(None, 8000)
    set_share(special, 9000, effective_from=DELIVERED + HOUR)

    assert selectors.share_at(provider_id=special.pk, at=DELIVERED) == 8000
    assert selectors.share_at(provider_id=special.pk, at=DELIVERED + HOUR) == 9000
    assert selectors.share_at(provider_id=other.pk, at=DELIVERED + HOUR) == 8000
    assert selectors.share_at(provider_id=None, at=DELIVERED + HOUR) == 8000
    assert share_history().count() == 2


@pytest.mark.parametrize("bps", [-1, 10_001])
def test_a_share_lies_between_nothing_and_all(bps):
    with pytest.raises(UnsoundPrice):
        set_share(None, bps)

    assert not ShareVersion.objects.exists()


def test_two_shares_do_not_share_a_moment():
    set_share(None, 8000)

    with pytest.raises(Conflict):
        set_share(None, 7000)

    assert ShareVersion.objects.get().share_bps == 8000
