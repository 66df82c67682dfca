"""Earning before anyone is identified: held within caps, routing that stops, release into maturity, and expiry."""

from datetime import timedelta

import pytest

from portal.accounts.models import Role
from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import AdjustmentKind, AdjustmentReason, EarningMaturity, HeldEarning, ProviderAdjustment
from portal.billing.selectors import balances, held_earnings
from portal.billing.services import adjustments, maturity, posting, reconcile
from portal.billing.services import held_earnings as services
from portal.billing.services.adjustments import AdjustmentOrder
from portal.notifications.models import Message
from portal.notifications.rendering import render
from portal.providers.models import Provider
from portal.providers.selectors import for_gateway
from tests.factories.accounts import MembershipFactory, UserFactory
from tests.factories.billing import DELIVERED, EarningProviderFactory, Market, ServingNodeFactory
from tests.factories.payouts import balance_of

pytestmark = pytest.mark.django_db

LATER = DELIVERED + timedelta(minutes=1)
SHARE = 480_000  # 80 % of what one request of the market costs


def unknown_market() -> Market:
    """A market whose provider nobody has identified."""
    node = ServingNodeFactory(provider=EarningProviderFactory(is_identified=False))
    MembershipFactory(
        organization=node.provider.organization, role=Role.OWNER, user__email=f"owner@{node.public_id}.example"
    )
    return Market(node=node)


def earned(*, times: int = 1) -> Market:
    """Let an unidentified provider earn."""
    market = unknown_market()
    for _ in range(times):
        market.serve()
    posting.post_usage(now=LATER)
    return market


def owner(market: Market) -> str:
    """Return the address of the provider's owner."""
    return f"owner@{market.node.public_id}.example".lower()


def take_back(market: Market, amount: int) -> ProviderAdjustment:
    """Claw it back for the pool."""
    order = AdjustmentOrder(
        provider=market.provider,
        kind=AdjustmentKind.CLAWBACK,
        reason=AdjustmentReason.FRAUD,
        amount_nano=amount,
        note="It served a smaller model.",
    )
    return adjustments.propose(
        order=order, proposed_by=UserFactory(is_operator=True), actor=SYSTEM_ACTOR, now=LATER + timedelta(minutes=2)
    )


def identify(market: Market) -> None:
    """Let the payment partner say who the provider is."""
    Provider.objects.filter(pk=market.provider.pk).update(is_identified=True)


def row(market: Market) -> for_gateway.ProviderRow:
    """Return the provider as gateways see it."""
    return for_gateway.providers()[market.provider.pk]


def test_the_charge_is_made_and_the_earning_is_held():
    market = earned()

    balance = balances.provider_balance(provider=market.provider.public_id)
    assert (balance.held_nano, balance.pending_nano, balance.available_nano) == (SHARE, 0, 0)
    assert balance_of("platform_revenue") == 120_000
    assert EarningMaturity.objects.count() == 0
    assert reconcile.differences(now=LATER) == []


def test_a_held_earning_never_matures_by_itself(settings):
    settings.PAYOUT_HOLD_DAYS = 0
    market = earned()

    assert maturity.mature(now=LATER + timedelta(days=100)) == 0
    assert balances.available_by_provider() == {}
    assert services.release(provider=market.provider.public_id, now=LATER) == 0


def test_being_identified_releases_into_maturity_counted_from_the_work(settings):
    settings.PAYOUT_HOLD_DAYS = 7
    market = earned(times=3)
    identify(market)
    day = LATER + timedelta(days=3)

    assert services.release(provider=market.provider.public_id, now=day) == 3 * SHARE
    assert services.release(provider=market.provider.public_id, now=day) == 0

    balance = balances.provider_balance(provider=market.provider.public_id)
    assert (balance.held_nano, balance.pending_nano) == (0, 3 * SHARE)
    assert EarningMaturity.objects.get().matures_at == DELIVERED + timedelta(days=7)
    assert maturity.mature(now=DELIVERED + timedelta(days=7)) == 1
    assert reconcile.differences(now=day) == []
    assert AuditEvent.objects.get(event="held.released").detail["amount_nano"] == 3 * SHARE


def test_a_lost_release_is_found_by_the_sweeper():
    market = earned()
    identify(market)

    assert services.release_all(now=LATER) == 1
    assert services.release_all(now=LATER) == 0
    assert balance_of("provider_held", market.provider.public_id) == 0


def test_a_clawback_reaches_what_is_held_first_and_only_the_rest_is_released(settings):
    settings.PAYOUT_HOLD_DAYS = 7
    market = earned()
    market.serve()
    posting.post_usage(now=LATER + timedelta(minutes=1))

    taken = take_back(market, SHARE + 7)

    assert (taken.from_held_nano, taken.from_pending_nano, taken.to_debt_nano) == (SHARE + 7, 0, 0)
    assert held_earnings.held_of(provider=market.provider.public_id).amount_nano == SHARE - 7
    told = [render(message).text for message in Message.objects.filter(template="provider_adjustment")]
    assert all("held until you are identified: 0.000480007 USD" in text for text in told)
    assert len(told) == 2
    assert reconcile.differences(now=LATER) == []
    identify(market)
    assert services.release(provider=market.provider.public_id, now=LATER) == SHARE - 7
    assert maturity.mature(now=DELIVERED + timedelta(days=7)) == 1
    assert balances.available_by_provider() == {market.provider.public_id: SHARE - 7}
    assert reconcile.differences(now=LATER) == []


def test_what_a_clawback_left_is_all_that_expires(settings):
    settings.EARN_BEFORE_KYC_EXPIRY_DAYS = 30
    market = earned()
    taken = take_back(market, 80_000)

    assert services.expire(now=LATER + timedelta(days=31)) == 1

    assert taken.from_held_nano == 80_000
    assert balance_of("breakage") == SHARE - 80_000
    assert balance_of("provider_held", market.provider.public_id) == 0
    assert reconcile.differences(now=LATER) == []


def test_what_is_posted_after_being_identified_is_not_held():
    market = unknown_market()
    market.serve()
    identify(market)

    posting.post_usage(now=LATER)

    assert balance_of("provider_pending", market.provider.public_id) == SHARE
    assert HeldEarning.objects.count() == 0


def test_without_the_policy_an_unidentified_provider_gets_no_paid_work():
    seen = row(unknown_market())

    assert (seen.is_usable, seen.may_earn) == (True, False)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"is_identified": True}, True), ({"kind": "house"}, True), ({"kind": "contracted"}, False)],
)
def test_who_earns_without_the_policy(fields, expected):
    provider = EarningProviderFactory(**{"is_identified": False, **fields})

    assert for_gateway.providers()[provider.pk].may_earn is expected


def test_with_the_policy_it_gets_work_until_its_cap_is_near(settings):
    settings.EARN_BEFORE_KYC = True
    settings.EARN_BEFORE_KYC_CAP_MINOR = 1
    market = earned()
    assert row(market).may_earn is True
    assert services.watch(now=LATER) == 0

    for _ in range(17):
        market.serve()
    posting.post_usage(now=LATER)
    assert services.watch(now=LATER) == 0
    market.serve()
    posting.post_usage(now=LATER)

    # 19 requests are 9.12 million nano: nine tenths of a cent, and the cap is one.
    assert services.watch(now=LATER) == 1
    assert row(market).may_earn is False
    assert services.watch(now=LATER) == 0
    assert AuditEvent.objects.get(event="provider.held_full_set").detail == {"before": False, "after": True}


def test_the_owner_hears_that_the_cap_is_reached(settings):
    settings.EARN_BEFORE_KYC = True
    settings.EARN_BEFORE_KYC_CAP_MINOR = 1
    market = earned(times=21)

    services.watch(now=LATER)

    mail = Message.objects.get(template="held_full", to=owner(market))
    assert "holds 0.01008 USD" in render(mail).text


def test_the_cap_over_all_providers_stops_each_of_them(settings):
    settings.EARN_BEFORE_KYC = True
    settings.EARN_BEFORE_KYC_CAP_MINOR = 100
    settings.EARN_BEFORE_KYC_TOTAL_MINOR = 1
    first, second = earned(times=10), earned(times=10)

    assert services.watch(now=LATER) == 2

    assert (row(first).may_earn, row(second).may_earn) == (False, False)


def test_what_was_under_way_at_the_cap_is_still_charged_and_held(settings):
    settings.EARN_BEFORE_KYC = True
    settings.EARN_BEFORE_KYC_CAP_MINOR = 1
    market = earned(times=21)
    services.watch(now=LATER)

    market.serve()
    posting.post_usage(now=LATER)

    assert balance_of("provider_held", market.provider.public_id) == 22 * SHARE
    assert reconcile.differences(now=LATER) == []


def test_being_identified_lifts_the_stop(settings):
    settings.EARN_BEFORE_KYC = True
    settings.EARN_BEFORE_KYC_CAP_MINOR = 1
    market = earned(times=21)
    services.watch(now=LATER)
    identify(market)

    services.release(provider=market.provider.public_id, now=LATER)

    assert (row(market).may_earn, Provider.objects.get(pk=market.provider.pk).is_held_full) == (True, False)


def test_held_earnings_are_kept_for_ever_by_default():
    market = earned()

    assert services.expire(now=LATER + timedelta(days=5000)) == 0
    assert held_earnings.held_of(provider=market.provider.public_id).expires_at is None
    assert balance_of("provider_held", market.provider.public_id) == SHARE


def test_by_policy_they_are_forfeited_after_two_warnings(settings):
    settings.EARN_BEFORE_KYC_EXPIRY_DAYS = 90
    market = earned()

    for day in (59, 60, 61, 83, 84, 89):
        assert services.expire(now=LATER + timedelta(days=day)) == 0
    assert Message.objects.filter(template="held_expiring", to=owner(market)).count() == 2
    assert services.expire(now=LATER + timedelta(days=90)) == 1
    assert services.expire(now=LATER + timedelta(days=90)) == 0

    assert balance_of("provider_held", market.provider.public_id) == 0
    assert balance_of("breakage") == SHARE
    mail = Message.objects.get(template="held_expired", to=owner(market))
    assert "0.00048 USD that" in render(mail).text
    assert reconcile.differences(now=LATER) == []


def test_an_identified_provider_forfeits_nothing(settings):
    settings.EARN_BEFORE_KYC_EXPIRY_DAYS = 90
    market = earned()
    identify(market)

    assert services.expire(now=LATER + timedelta(days=90)) == 0
    assert services.release_all(now=LATER + timedelta(days=90)) == 1


@pytest.mark.parametrize(
    ("table", "code"), [("amount_nano", "held_differs_from_earnings"), ("tx", "earning_without_maturity")]
)
def test_the_ledger_check_names_what_does_not_fit(table, code):
    earned()
    if table == "tx":
        HeldEarning.objects.all().delete()
    else:
        HeldEarning.objects.update(amount_nano=1)

    assert code in {one.code for one in reconcile.differences(now=LATER)}
