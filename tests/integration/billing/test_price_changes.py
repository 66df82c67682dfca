"""A price holds from its very moment on, can be taken back before it, and what is agreed with one organization ends."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, connection, transaction

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.errors import PriceInThePast, PriceNotCancelable, UnsoundPrice
from portal.billing.models import EarningDay, PriceEnd, PriceVersion, ShareVersion, SpendDay, TierMembership
from portal.billing.rules.periods import month_of
from portal.billing.rules.rating import Terms
from portal.billing.selectors import for_gateway, statements
from portal.billing.selectors import prices as selectors
from portal.billing.selectors import shares as share_selectors
from portal.billing.selectors.statements import Party
from portal.billing.services import posting, price_ends, prices, reconcile, share_tiers
from portal.billing.services.prices import Agreed
from portal.core.errors import Conflict, InvalidValue, NotFound
from portal.gateway.snapshot_loader import SnapshotLoader
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import (
    DELIVERED,
    OPENED,
    TERMS,
    EarningProviderFactory,
    Market,
    PricedModelFactory,
    agreed_price,
    price_to_come,
)

pytestmark = pytest.mark.django_db
CHEAP = Terms(100_000_000, 10_000_000, 400_000_000, request_nano=7)
HOUR, MOMENT = timedelta(hours=1), timedelta(microseconds=1)
OPERATOR = Actor("user_operator")


def set_price(model, terms=TERMS, **changes):
    return prices.set_price(model=model, terms=terms, **{"actor": SYSTEM_ACTOR, "now": DELIVERED} | changes)


def cancel(version, **changes):
    return price_ends.cancel(
        version_id=version.pk, **{"reason": "A slip.", "actor": OPERATOR, "now": DELIVERED} | changes
    )


def test_a_planned_price_is_taken_back_and_another_takes_its_moment():
    model = PricedModelFactory()
    first = set_price(model)
    planned = set_price(model, CHEAP, effective_from=DELIVERED + HOUR)

    cancel(planned)
    instead = set_price(model, CHEAP, effective_from=DELIVERED + HOUR, now=DELIVERED + timedelta(minutes=1))

    assert instead.version == 3
    assert selectors.prices_at(at=DELIVERED + HOUR - MOMENT)[model.pk] == first
    assert selectors.prices_at(at=DELIVERED + HOUR)[model.pk] == instead
    assert list(selectors.all_upcoming(now=DELIVERED)) == [instead]
    assert list(selectors.price_history(model_id=model.pk)) == [instead, planned, first]
    assert for_gateway.prices_from(at=DELIVERED) == {model.pk: [first, instead]}
    event = AuditEvent.objects.get(event="price.canceled")
    assert (event.actor, event.detail["version"], event.detail["reason"]) == ("user_operator", 2, "A slip.")


@pytest.mark.parametrize("late", [timedelta(seconds=59), timedelta(0), -HOUR])
def test_a_price_about_to_hold_or_holding_is_not_taken_back(late):
    model = PricedModelFactory()
    version = set_price(model, effective_from=DELIVERED + HOUR)

    with pytest.raises(PriceNotCancelable):
        cancel(version, now=version.effective_from - late)

    assert not PriceEnd.objects.exists()


def test_a_price_is_taken_back_once_and_only_the_pools():
    version = set_price(PricedModelFactory(), effective_from=DELIVERED + HOUR)
    private = set_price(PricedModelFactory(), provider=EarningProviderFactory(), effective_from=DELIVERED + HOUR)
    cancel(version)

    with pytest.raises(PriceNotCancelable, match="ended before"):
        cancel(version)
    with pytest.raises(NotFound):
        cancel(private)
    with pytest.raises(NotFound):
        price_ends.cancel(version_id=0, reason="", actor=OPERATOR, now=DELIVERED)

    assert PriceEnd.objects.count() == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_priceend SET at = now()",
        "DELETE FROM billing_priceend",
        "UPDATE billing_tiermembership SET tier_id = NULL",
    ],
)
def test_ends_and_memberships_are_history_too(statement):
    cancel(set_price(PricedModelFactory(), effective_from=DELIVERED + HOUR))
    tier = share_tiers.make_tier(name="Verified", actor=OPERATOR, now=DELIVERED)
    share_tiers.move_provider(provider=EarningProviderFactory(), tier=tier, actor=OPERATOR, now=DELIVERED)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_an_agreement_holds_for_one_organization_between_its_moments():
    model, organization, other = PricedModelFactory(), OrganizationFactory(), OrganizationFactory()
    public = set_price(model)
    agreed = set_price(model, CHEAP, effective_from=DELIVERED + HOUR, agreed=Agreed(organization, DELIVERED + 3 * HOUR))

    def own(at, whose=organization):
        return selectors.own_prices_at(organization_id=whose.pk, at=at).get(model.pk)

    assert own(DELIVERED + HOUR - MOMENT) is None
    assert own(DELIVERED + HOUR) == own(DELIVERED + 3 * HOUR - MOMENT) == agreed
    assert own(DELIVERED + 3 * HOUR) is None
    assert own(DELIVERED + HOUR, other) is None
    assert selectors.prices_at(at=DELIVERED + 2 * HOUR)[model.pk] == public
    assert agreed.version == 1
    assert AuditEvent.objects.get(event="price.set", organization=organization.public_id).subject == model.public_id


def test_an_agreement_is_ended_from_now_on_and_a_newer_one_replaces_it():
    model, organization = PricedModelFactory(), OrganizationFactory()
    first = agreed_price(organization, model, now=OPENED)
    price_ends.end_agreement(version_id=first.pk, reason="Over.", actor=OPERATOR, now=DELIVERED)
    second = set_price(model, CHEAP, now=DELIVERED + HOUR, agreed=Agreed(organization))

    assert selectors.own_prices_at(organization_id=organization.pk, at=DELIVERED - MOMENT) == {model.pk: first}
    assert selectors.own_prices_at(organization_id=organization.pk, at=DELIVERED) == {}
    assert selectors.own_prices_at(organization_id=organization.pk, at=DELIVERED + HOUR) == {model.pk: second}
    assert for_gateway.own_prices_from(at=DELIVERED + 2 * HOUR) == {(organization.pk, model.pk): [second]}
    with pytest.raises(PriceNotCancelable):
        price_ends.end_agreement(version_id=first.pk, reason="", actor=OPERATOR, now=DELIVERED + HOUR)
    with pytest.raises(PriceNotCancelable):
        price_ends.end_agreement(version_id=price_to_come().pk, reason="", actor=OPERATOR, now=DELIVERED)


def test_an_agreement_that_ends_before_it_begins_is_refused():
    organization = OrganizationFactory()

    with pytest.raises(UnsoundPrice):
        set_price(PricedModelFactory(), agreed=Agreed(organization, DELIVERED))
    with pytest.raises(UnsoundPrice):
        set_price(PricedModelFactory(), agreed=Agreed(organization), provider=EarningProviderFactory())

    assert not PriceVersion.objects.exists()


def test_the_gateway_sees_ends_by_their_own_clock_and_cancellations_at_once():
    model, organization = PricedModelFactory(), OrganizationFactory()
    set_price(model, now=OPENED)
    set_price(model, CHEAP, agreed=Agreed(organization, DELIVERED + HOUR))
    planned = set_price(model, CHEAP, effective_from=DELIVERED + HOUR)
    loader = SnapshotLoader()

    before = loader.load(now=DELIVERED)
    cancel(planned)
    after = loader.load(now=DELIVERED)

    (entry,) = before.own_prices[organization.pk, model.pk]
    assert entry.effective_until == (DELIVERED + HOUR).timestamp()
    assert [price.version for price in before.models[model.public_id].prices] == [1, 2]
    assert [price.version for price in after.models[model.public_id].prices] == [1]
    assert loader.load(now=DELIVERED) is after


def test_shares_go_provider_tier_default_each_from_its_moment(settings):
    settings.PLATFORM_FEE_BPS = 2500
    one, other = EarningProviderFactory(), EarningProviderFactory()
    tier = share_tiers.make_tier(name=" Verified  ones ", actor=OPERATOR, now=DELIVERED)
    share_tiers.move_provider(provider=one, tier=tier, actor=OPERATOR, now=DELIVERED)
    prices.set_share(provider=None, tier=tier, share_bps=8500, actor=OPERATOR, now=DELIVERED)
    prices.set_share(provider=one, share_bps=9000, actor=OPERATOR, now=DELIVERED, effective_from=DELIVERED + HOUR)
    prices.set_share(provider=one, share_bps=None, actor=OPERATOR, now=DELIVERED, effective_from=DELIVERED + 2 * HOUR)
    share_tiers.move_provider(
        provider=one, tier=None, actor=OPERATOR, now=DELIVERED, effective_from=DELIVERED + 3 * HOUR
    )

    found = [selectors.share_at(provider_id=one.pk, at=DELIVERED + hour * HOUR) for hour in range(4)]

    assert tier.name == "Verified ones"
    assert found == [8500, 9000, 8500, 7500]
    assert [for_gateway.shares_at(at=DELIVERED + hour * HOUR)[0][one.pk] for hour in range(4)] == found
    assert for_gateway.shares_at(at=DELIVERED) == ({one.pk: 8500}, 7500)
    assert selectors.share_at(provider_id=other.pk, at=DELIVERED) == 7500
    assert [step.share.bps for step in share_selectors.history_of(provider_id=one.pk)] == found
    assert [member.provider for member in share_selectors.members_at(at=DELIVERED)] == [one]
    assert share_selectors.members_at(at=DELIVERED + 3 * HOUR) == []


def test_a_tier_or_share_that_cannot_be_is_refused():
    tier = share_tiers.make_tier(name="Verified", actor=OPERATOR, now=DELIVERED)
    provider = EarningProviderFactory()
    with pytest.raises(Conflict):
        share_tiers.make_tier(name="verified", actor=OPERATOR, now=DELIVERED)
    with pytest.raises(InvalidValue):
        share_tiers.make_tier(name=" ", actor=OPERATOR, now=DELIVERED)
    with pytest.raises(PriceInThePast):
        share_tiers.move_provider(
            provider=provider, tier=tier, actor=OPERATOR, now=DELIVERED, effective_from=DELIVERED - MOMENT
        )
    with pytest.raises(UnsoundPrice):
        prices.set_share(provider=None, share_bps=None, actor=OPERATOR, now=DELIVERED)
    with pytest.raises(UnsoundPrice):
        prices.set_share(provider=provider, tier=tier, share_bps=1, actor=OPERATOR, now=DELIVERED)
    share_tiers.move_provider(provider=provider, tier=tier, actor=OPERATOR, now=DELIVERED)
    with pytest.raises(Conflict):
        share_tiers.move_provider(provider=provider, tier=None, actor=OPERATOR, now=DELIVERED)

    assert TierMembership.objects.count() == 1
    assert not ShareVersion.objects.exists()


def test_reserve_and_settle_use_the_same_price():
    """Posting, sums, statement and check all follow the version that the record pinned, not the one of today."""
    market = Market()
    market.serve(node_class="community")
    set_price(market.model, CHEAP, now=DELIVERED - MOMENT)
    posting.post_usage(now=DELIVERED)

    (day,) = SpendDay.objects.all()
    assert (day.price_version_id, day.charge_nano) == (market.price.pk, 600_000)
    (earned,) = EarningDay.objects.all()
    assert (earned.share_bps, earned.earned_nano, earned.node_class) == (8000, 480_000, "community")
    assert [found.code for found in reconcile.differences(now=DELIVERED)] == []


def test_the_balance_is_the_sum_of_its_rows_to_the_nano_at_any_price():
    market = Market()
    odd = set_price(market.model, Terms(333_333_333, 111_111_111, 777_777_777, request_nano=1), now=DELIVERED - HOUR)
    for number in range(1, 8):
        market.price = odd if number % 2 else market.price
        market.serve(prompt=number * 13, cached=number, completion=number * 7)
    posting.post_usage(now=DELIVERED)

    assert [found.code for found in reconcile.differences(now=DELIVERED)] == []
    assert sum(day.charge_nano for day in SpendDay.objects.all()) == sum(
        day.charge_nano for day in EarningDay.objects.all()
    )


def test_tiny_requests_are_charged_in_nano_and_never_rounded_to_nothing():
    tiny = PricedModelFactory()
    price = set_price(tiny, Terms(2_800_000, 2_800_000, 2_800_000), now=OPENED)
    market = Market(model=tiny)
    assert market.price == price

    for _ in range(100):
        market.serve(prompt=1, completion=0)
    posting.post_usage(now=DELIVERED)

    (day,) = SpendDay.objects.all()
    assert (day.requests, day.charge_nano) == (100, 300)  # 2.8 nano each, rounded half up once


ZURICH = ZoneInfo("Europe/Zurich")


@pytest.mark.parametrize(
    ("closed_at", "month"),
    [
        (datetime(2026, 10, 31, 23, 59, 59, tzinfo=UTC), "2026-10"),
        (datetime(2026, 11, 1, 0, 0, 0, tzinfo=UTC), "2026-11"),
        (datetime(2026, 11, 1, 0, 0, 1, tzinfo=UTC), "2026-11"),
        (datetime(2026, 11, 1, 0, 30, tzinfo=ZURICH), "2026-10"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZURICH), "2026-10"),
        (datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZURICH), "2026-10"),
    ],
)
def test_usage_belongs_to_the_utc_month_of_its_end_whatever_the_time_zone(closed_at, month):
    market = Market()
    market.serve(closed_at=closed_at)
    posting.post_usage(now=DELIVERED)

    party = Party("customer", market.customer.public_id)
    october, november = (
        statements.content(party=party, period=month_of(datetime(2026, number, 15, tzinfo=UTC)), currency="usd")
        for number in (10, 11)
    )

    assert (october.usage_nano, november.usage_nano) == ((600_000, 0) if month == "2026-10" else (0, 600_000))
    assert SpendDay.objects.get().day == closed_at.astimezone(UTC).date()


@pytest.mark.parametrize("fold", [0, 1])
def test_a_price_set_for_a_moment_that_comes_twice_holds_from_the_one_meant(fold):
    model = PricedModelFactory()
    first = set_price(model, now=OPENED)
    starts = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=ZURICH)
    second = set_price(model, CHEAP, now=OPENED, effective_from=starts)

    utc = datetime(2026, 10, 25, 0 + fold, 30, tzinfo=UTC)
    assert selectors.prices_at(at=utc - timedelta(seconds=1))[model.pk] == first
    assert selectors.prices_at(at=utc)[model.pk] == second


def test_a_price_that_was_canceled_and_one_of_somebody_else_are_named_where_they_were_used():
    market = Market()
    strangers = agreed_price(OrganizationFactory(), market.model)
    canceled = set_price(market.model, now=OPENED, effective_from=OPENED + HOUR)
    cancel(canceled, now=OPENED)
    market.serve(price_version_id=strangers.pk)
    market.serve(price_version_id=canceled.pk)
    posting.post_usage(now=DELIVERED)

    found = {difference.code for difference in reconcile.differences(now=DELIVERED)}

    assert found == {"price_of_another", "price_not_in_force"}


def test_a_statement_names_each_version_that_applied_and_whose_it_is():
    market = Market()
    agreed = agreed_price(market.customer, market.model, terms=CHEAP)
    market.serve()
    market.serve(price_version_id=agreed.pk, charge_nano=300_007)
    posting.post_usage(now=DELIVERED)

    content = statements.content(
        party=Party("customer", market.customer.public_id), period=month_of(DELIVERED), currency="usd"
    )

    assert {(line.label, line.prompt_nano, line.request_nano) for line in content.prices} == {
        ("1", 200_000_000, 0),
        ("own 1", 100_000_000, 7),
    }
