"""Over any sequence of grants, holds, charges, returns, postings and deaths: holds ≤ granted ≤ held ≤ balance."""

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.billing.models import BudgetWindow, CreditLease, LeaseState, LedgerAccount
from portal.billing.rules.leasing import Ask
from portal.billing.services import budgets, lease_sweep, leases, posting, recovery
from portal.gateway.lease_pool import Fetched, LeasePool, Part, settle
from portal.metering.rules.draws import Draws, columns
from portal.metering.services import spools
from tests.factories import metering
from tests.factories.billing import OPENED, Market, budget_of

pytestmark = pytest.mark.django_db

PAID, PROMO, CAP = 1_000, 150, 700
NOW = OPENED.timestamp()

steps = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), st.integers(0, 1), st.integers(1, 400)),
        st.tuples(st.just("place"), st.integers(0, 1), st.integers(1, 150)),
        st.tuples(st.just("charge"), st.integers(0, 1), st.integers(0, 100)),
        st.tuples(st.just("return"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("die"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("post"), st.just(0), st.integers(1, 3)),
    ),
    max_size=30,
)


class _Process:
    """What one gateway process has in memory, and what it asks of the database."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.spool = metering.spool(now=OPENED)
        self.credit, self.budget = LeasePool(), LeasePool()
        self.holds: list[tuple[list[Part], list[Part], int]] = []

    def grant(self, nano: int) -> None:
        granted = leases.grant(
            organization_id=self.market.customer.pk,
            spool_id=self.spool.pk,
            ask=Ask(nano, 1, idle_nano=self.credit.idle_by_lease()),
            now=OPENED,
        )
        self.credit.absorb([Fetched(row.lease_id, row.granted, row.expires_at.timestamp()) for row in granted.leases])
        budget = budgets.grant(
            terms=budget_of(self.market.key),
            spool_id=self.spool.pk,
            ask=Ask(nano, 1, idle_nano=self.budget.idle_by_lease()),
            window_at=OPENED,
            now=OPENED,
        )
        if budget.lease_id is not None:
            self.budget.absorb([Fetched(budget.lease_id, budget.granted, budget.expires_at.timestamp())])

    def place(self, nano: int) -> None:
        budget = self.budget.take(nano, NOW)
        credit = self.credit.take(nano, NOW) if budget else None
        if budget and credit:
            self.holds.append((credit, budget, nano))
        elif budget:
            settle(budget, used=0)

    def charge(self, percent: int) -> None:
        if not self.holds:
            return
        credit, budget, nano = self.holds.pop(0)
        used = nano * percent // 100
        settle(credit, used=used)
        settle(budget, used=used)
        held = Draws(_named(credit), [_named(budget)])
        self.market.serve(charge_nano=used, spool_id=self.spool.public_id, **columns(charge_nano=used, draws=held))

    def return_idle(self) -> None:
        for pool, service in ((self.credit, leases), (self.budget, budgets)):
            for lease in pool:
                lease.granted = service.LIFE.shrink(lease_id=lease.id, keep_nano=lease.used + lease.held)

    def die(self) -> None:
        """Open holds vanish with the process; its records are in, so the spool is drained."""
        spools.mark_drained(public_id=self.spool.public_id, now=OPENED)
        leases.LIFE.finish_spool(spool_id=self.spool.pk, now=OPENED)
        budgets.LIFE.finish_spool(spool_id=self.spool.pk, now=OPENED)
        self.__init__(self.market)


def _named(parts: list[Part]) -> list[tuple[int, int]]:
    return [(part.lease.id, part.nano) for part in parts]


def _check(market: Market, processes: list[_Process]) -> None:
    account = LedgerAccount.objects.get(code=f"customer_credit:{market.customer.public_id}")
    assert 0 <= account.held <= account.credits - account.debits
    assert recovery.examine() == []
    for window in BudgetWindow.objects.all():
        assert window.used_nano + window.leased_nano <= CAP
    for process in processes:
        for lease in process.credit:
            row = CreditLease.objects.get(pk=lease.id)
            assert lease.used + lease.held <= lease.granted == row.granted
            assert row.used <= lease.used


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
def test_no_sequence_overdraws_anything_and_in_the_end_everything_is_returned(steps):
    with transaction.atomic():
        market = Market(paid_nano=PAID, promo_nano=PROMO, lease_nano=0)
        market.key.budget_cap_nano = CAP
        market.key.save()
        processes = [_Process(market), _Process(market)]
        for verb, number, value in steps:
            if verb == "post":
                posting.post_usage(now=OPENED, limit=value)
            elif verb == "return":
                processes[number].return_idle()
            elif verb == "die":
                processes[number].die()
            else:
                getattr(processes[number], verb)(value)
            _check(market, processes)
        for process in processes:
            process.die()
        posting.post_usage(now=OPENED, limit=100)
        lease_sweep.sweep(now=OPENED)
        account = LedgerAccount.objects.get(code=f"customer_credit:{market.customer.public_id}")
        assert account.held == 0
        assert not CreditLease.objects.exclude(state=LeaseState.CLOSED).exists()
        transaction.set_rollback(True)
