"""A lease is granted from free credit, lowered by posted usage, and returned once the last record is in."""

from datetime import timedelta

import pytest

from portal.billing import locks
from portal.billing.lease_errors import LeaseClosed, LeaseOverdrawn, LeaseUnknown, RecordsMissing
from portal.billing.models import CreditLease, LeaseState, LedgerAccount
from portal.billing.rules import leasing
from portal.billing.rules.leasing import Ask
from portal.billing.services import leases, ledger, posting
from portal.metering.models import UsageQueue
from portal.metering.services import spools
from tests.factories import metering
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import OPENED, Market, buy

pytestmark = pytest.mark.django_db

HOLD = 1_000_000


def _credit(organization) -> LedgerAccount:
    return LedgerAccount.objects.get(code=f"customer_credit:{organization.public_id}")


def _promo(organization) -> LedgerAccount:
    return LedgerAccount.objects.get(code=f"promo_credit:{organization.public_id}")


def _grant(market: Market, wanted: int, *, minimum: int | None = None, spool=None, **ask):
    return leases.grant(
        organization_id=market.customer.pk,
        spool_id=(spool or market.spool).pk,
        ask=Ask(wanted_nano=wanted, minimum_nano=minimum or wanted, **ask),
        now=OPENED,
    )


def test_a_grant_holds_what_it_lends():
    market = Market(paid_nano=100 * HOLD, lease_nano=0)

    granted = _grant(market, 30 * HOLD)

    assert [(lease.granted, lease.is_promotional) for lease in granted.leases] == [(30 * HOLD, False)]
    assert (granted.balance_nano, granted.held_nano) == (100 * HOLD, 30 * HOLD)
    assert _credit(market.customer).held == 30 * HOLD
    assert granted.leases[0].expires_at == OPENED + leasing.TERM


def test_promotional_credit_is_lent_first_and_each_account_has_one_lease():
    market = Market(paid_nano=100 * HOLD, promo_nano=5 * HOLD, lease_nano=0)

    _grant(market, 3 * HOLD, minimum=HOLD)
    granted = _grant(market, 7 * HOLD, minimum=HOLD)

    assert [(lease.granted, lease.is_promotional) for lease in granted.leases] == [
        (5 * HOLD, True),
        (5 * HOLD, False),
    ]
    assert _promo(market.customer).held == 5 * HOLD
    assert CreditLease.objects.count() == 2


def test_a_promotional_rest_is_lent_first_and_paid_credit_for_what_it_lacks():
    market = Market(paid_nano=100 * HOLD, promo_nano=HOLD // 2, lease_nano=0)

    granted = _grant(market, HOLD)

    assert [(lease.granted, lease.is_promotional) for lease in granted.leases] == [
        (HOLD // 2, True),
        (HOLD // 2, False),
    ]


def test_what_lies_idle_is_counted_before_more_is_lent():
    market = Market(paid_nano=100 * HOLD, lease_nano=0)
    first = _grant(market, 10 * HOLD).leases[0]

    again = _grant(market, 12 * HOLD, idle_nano={first.lease_id: 10 * HOLD})

    assert again.leases[0].granted == 12 * HOLD


def test_no_more_than_the_free_credit_is_lent():
    market = Market(paid_nano=10 * HOLD, lease_nano=0)
    other = metering.spool(now=OPENED)

    first = _grant(market, 7 * HOLD, minimum=HOLD)
    second = _grant(market, 7 * HOLD, minimum=HOLD, spool=other)
    third = _grant(market, HOLD, spool=metering.spool(now=OPENED))

    assert first.leases[0].granted == 7 * HOLD
    assert second.leases[0].granted == 3 * HOLD
    assert third.leases == ()
    assert (third.balance_nano, third.held_nano) == (10 * HOLD, 10 * HOLD)


def test_scarce_credit_is_not_lent_ahead_and_plenty_is():
    scarce = _grant(Market(paid_nano=21 * HOLD - 1, lease_nano=0), HOLD, ahead_nano=5 * HOLD)
    plenty = _grant(Market(paid_nano=201 * HOLD, lease_nano=0), HOLD, ahead_nano=5 * HOLD)

    assert scarce.leases[0].granted == HOLD
    assert plenty.leases[0].granted == 6 * HOLD


def test_an_organization_without_credit_gets_nothing():
    market = Market(lease_nano=0)
    penniless = OrganizationFactory()

    granted = leases.grant(organization_id=penniless.pk, spool_id=market.spool.pk, ask=Ask(HOLD, HOLD), now=OPENED)

    assert (granted.leases, granted.balance_nano) == ((), 0)


def test_shrinking_returns_what_is_not_kept():
    market = Market(paid_nano=100 * HOLD, lease_nano=0)
    lease = _grant(market, 30 * HOLD).leases[0]

    size = leases.LIFE.shrink(lease_id=lease.lease_id, keep_nano=4 * HOLD)
    again = leases.LIFE.shrink(lease_id=lease.lease_id, keep_nano=9 * HOLD)

    assert (size, again) == (4 * HOLD, 4 * HOLD)
    assert _credit(market.customer).held == 4 * HOLD


def test_posted_usage_lowers_the_lease_the_hold_and_the_balance_together():
    market = Market(paid_nano=100 * HOLD, lease_nano=30 * HOLD)
    market.serve(charge_nano=2 * HOLD)

    posting.post_usage(now=OPENED, limit=10)

    account, lease = _credit(market.customer), market.leases[0]
    lease.refresh_from_db()
    assert (lease.granted, lease.used) == (30 * HOLD, 2 * HOLD)
    assert (ledger.balance(account), account.held) == (98 * HOLD, 28 * HOLD)


def test_a_charge_beyond_the_lease_is_refused():
    market = Market(paid_nano=100 * HOLD, lease_nano=HOLD)
    lease = market.leases[0]

    with pytest.raises(LeaseOverdrawn):
        leases.LIFE.charge(lease_id=lease.pk, charge_nano=HOLD + 1)

    lease.refresh_from_db()
    assert (lease.used, _credit(market.customer).held) == (0, HOLD)


def test_an_unknown_or_closed_lease_takes_no_charge():
    market = Market(paid_nano=100 * HOLD, lease_nano=HOLD)
    leases.LIFE.finish(lease_id=market.leases[0].pk, last_seq=0, now=OPENED)

    with pytest.raises(LeaseClosed):
        leases.LIFE.charge(lease_id=market.leases[0].pk, charge_nano=1)
    with pytest.raises(LeaseUnknown):
        leases.LIFE.charge(lease_id=10**9, charge_nano=1)

    assert _credit(market.customer).held == 0


def test_the_rest_returns_only_after_the_last_record_is_in():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    lease = market.leases[0]
    market.serve(charge_nano=HOLD)

    with pytest.raises(RecordsMissing):
        leases.LIFE.finish(lease_id=lease.pk, last_seq=2, now=OPENED)
    assert _credit(market.customer).held == 10 * HOLD

    is_closed = leases.LIFE.finish(lease_id=lease.pk, last_seq=1, now=OPENED)

    lease.refresh_from_db()
    assert not is_closed
    assert (lease.state, lease.granted) == (LeaseState.CLOSING, HOLD)
    assert _credit(market.customer).held == HOLD


def test_a_closing_lease_closes_when_its_charges_are_posted():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    market.serve(charge_nano=HOLD)
    leases.LIFE.finish(lease_id=market.leases[0].pk, last_seq=1, now=OPENED)

    before = leases.LIFE.finish_closing(now=OPENED)
    posting.post_usage(now=OPENED, limit=10)
    after = leases.LIFE.finish_closing(now=OPENED)

    lease = CreditLease.objects.get()
    assert (before, after) == (0, 1)
    assert (lease.state, lease.used, lease.closed_at) == (LeaseState.CLOSED, HOLD, OPENED)
    assert (_credit(market.customer).held, ledger.balance(_credit(market.customer))) == (0, 99 * HOLD)


def test_a_spools_leases_return_when_it_is_drained():
    market = Market(paid_nano=100 * HOLD, promo_nano=HOLD, lease_nano=10 * HOLD)

    with pytest.raises(RecordsMissing):
        leases.LIFE.finish_spool(spool_id=market.spool.pk, now=OPENED)
    spools.mark_drained(public_id=market.spool.public_id, now=OPENED)
    left = leases.LIFE.finish_spool(spool_id=market.spool.pk, now=OPENED)

    assert left == 0
    assert (_credit(market.customer).held, _promo(market.customer).held) == (0, 0)


def test_an_expired_lease_is_fenced_but_keeps_its_credit():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)

    early = leases.LIFE.begin_closing_expired(now=OPENED + leasing.TERM - timedelta(seconds=1))
    fenced = leases.LIFE.begin_closing_expired(now=OPENED + leasing.TERM)
    renewed = leases.LIFE.renew(lease_ids=fenced, now=OPENED)

    assert (early, fenced, renewed) == ([], [market.leases[0].pk], {})
    assert _credit(market.customer).held == 10 * HOLD


def test_a_fenced_lease_is_not_enlarged_a_new_one_is_opened():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    leases.LIFE.begin_closing(lease_ids=[market.leases[0].pk])

    granted = _grant(market, 5 * HOLD)

    assert [lease.granted for lease in granted.leases] == [5 * HOLD]
    assert granted.leases[0].lease_id != market.leases[0].pk


def test_renewing_begins_a_new_term():
    market = Market(paid_nano=100 * HOLD, lease_nano=HOLD)
    later = OPENED + timedelta(minutes=10)

    renewed = leases.LIFE.renew(lease_ids=[market.leases[0].pk], now=later)

    assert renewed == {market.leases[0].pk: later + leasing.TERM}


def test_the_balance_never_falls_below_what_is_held():
    market = Market(paid_nano=10 * HOLD, lease_nano=10 * HOLD)
    buy(market.customer, amount=HOLD, key="2")

    granted = _grant(market, 5 * HOLD, minimum=HOLD, spool=metering.spool(now=OPENED))

    assert granted.leases[0].granted == HOLD
    account = locks.accounts([_credit(market.customer).pk]).popitem()[1]
    assert account.held == 11 * HOLD == account.credits - account.debits
    assert not UsageQueue.objects.exists()
