"""Customers are told of a new price before it holds, once, and of one that was taken back after that."""

from datetime import timedelta

import pytest

from portal.accounts.models import OrganizationState
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import PriceNotice
from portal.billing.rules.rating import Terms
from portal.billing.services import posting, price_ends, price_notices, prices
from portal.billing.services.prices import Agreed
from portal.notifications.models import Message
from portal.notifications.rendering import render
from tests.factories.billing import DELIVERED, Market, agreed_price
from tests.world import World

pytestmark = pytest.mark.django_db
NEW = Terms(300_000_000, 50_000_000, 900_000_000, request_nano=1_000)
DAY = timedelta(days=1)
STARTS = DELIVERED + 20 * DAY


@pytest.fixture
def market(world: World) -> Market:
    """A customer who used the model, and one who did not."""
    served = Market(customer=world.customer.organization)
    served.serve()
    posting.post_usage(now=DELIVERED)
    return served


def set_price(market: Market, **changes):
    given = {"effective_from": STARTS, "now": DELIVERED} | changes
    return prices.set_price(model=market.model, terms=NEW, actor=SYSTEM_ACTOR, **given)


def test_users_of_the_model_are_told_so_many_days_before(market, world, settings):
    settings.PRICE_NOTICE_DAYS = 14
    set_price(market)

    early = price_notices.tell(now=STARTS - 14 * DAY - timedelta(seconds=1))
    told = [price_notices.tell(now=STARTS - 14 * DAY) for _ in range(2)]

    assert (early, told) == (0, [1, 0])
    assert PriceNotice.objects.get().organization == world.customer.organization
    message = Message.objects.get(template="price_change")
    shown = render(message)
    assert message.to == world.customer.owner.email
    assert shown.subject == f"New price of {market.model.public_id} from 2026-11-22 12:00 UTC"
    assert "prompt tokens, per million: 0.2 now, 0.3 then" in shown.text
    assert "each request: 0 now, 0.000001 then" in shown.text


def test_a_price_that_comes_sooner_is_told_at_once_and_the_first_one_to_nobody(market):
    set_price(market, effective_from=DELIVERED + timedelta(hours=1))

    assert price_notices.tell(now=DELIVERED) == 1
    assert Message.objects.filter(template="price_change").count() == 1


def test_who_has_an_agreement_or_is_suspended_is_left_alone(market, world):
    other = Market(model=market.model)
    other.serve()
    posting.post_usage(now=DELIVERED)
    other.customer.state = OrganizationState.SUSPENDED
    other.customer.save()
    agreed_price(world.customer.organization, market.model, terms=NEW)
    set_price(market)

    assert price_notices.tell(now=STARTS - DAY) == 0
    assert not Message.objects.exists()


def test_a_coming_agreement_is_told_to_its_organization(market, world):
    set_price(market, agreed=Agreed(world.customer.organization))

    assert price_notices.tell(now=STARTS - DAY) == 1
    assert "0.2 now, 0.3 then" in render(Message.objects.get(template="price_change")).text


def test_who_was_told_is_told_that_it_was_taken_back(market, world):
    version = set_price(market)
    price_notices.tell(now=STARTS - 10 * DAY)
    price_ends.cancel(version_id=version.pk, reason="No.", actor=SYSTEM_ACTOR, now=STARTS - 9 * DAY)

    taken_back = [price_notices.withdraw(now=STARTS - 9 * DAY) for _ in range(2)]

    assert taken_back == [1, 0]
    assert "stays as it is" in render(Message.objects.get(template="price_canceled")).text
    assert price_notices.tell(now=STARTS - DAY) == 0
