"""Whatever happens in whatever order: each transaction balances, no balance falls below its floor, replays change
nothing, and the ledger has no differences."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import BelowFloor
from portal.billing.models import (
    CreditLease,
    LeaseState,
    LedgerAccount,
    LedgerTransfer,
    LedgerTx,
    Refund,
    RefundOrigin,
    RefundState,
    TopUp,
)
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances, transactions
from portal.billing.selectors import refunds as refund_selectors
from portal.billing.services import leases, ledger, maturity, posting, reconcile, refund_moves, templates
from portal.billing.services.refund_moves import Wish
from portal.metering.models import UsageQueue
from tests.factories.billing import OPENED, Market, ServingNodeFactory, buy, paid_in
from tests.factories.payouts import TopUpFactory
from tests.property import invariants

AMOUNTS = st.integers(1, 5_000_000)
MINORS = st.integers(1, 50)
TOKENS = st.integers(0, 3_000)
PER_MINOR = 10_000_000
START = datetime(2026, 11, 2, tzinfo=UTC)


class LedgerMachine(RuleBasedStateMachine):
    """Two customers, one of whom also runs a node, and two providers."""

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.now = START
        self.number = 0
        self.bank = 0
        self.served_nano = 0
        self.posted: list[dict[str, object]] = []
        self.clearing: list[tuple[str, int]] = []
        self.sent: list[tuple[str, int]] = []
        self.bought: list[TopUp] = []
        self.refunds: list[Refund] = []

    @initialize()
    def open_market(self) -> None:
        """Set the scene without any money."""
        stranger, own = ServingNodeFactory(), ServingNodeFactory()
        empty = {"paid_nano": 0, "lease_nano": 0}
        first = Market(node=stranger, **empty)
        second = Market(customer=own.provider.organization, node=own, model=first.model, **empty)
        third = Market(customer=second.customer, node=stranger, model=first.model, **empty)
        self.markets = [first, second, third]

    def post(self, kind: str, transfers: list[ledger.Transfer]) -> bool:
        """Post and remember the call for a replay; a refusal must change nothing."""
        self.number += 1
        call = {"kind": kind, "key": f"{kind}:{self.number}", "source_type": "machine", "source_id": str(self.number)}
        call |= {"transfers": transfers, "actor": SYSTEM_ACTOR, "now": self.now}
        before = self.totals()
        try:
            ledger.post(**call)
        except BelowFloor:
            assert self.totals() == before
            return False
        self.posted.append(call)
        return True

    def totals(self) -> list[tuple[object, ...]]:
        """All that a refusal or a replay must leave alone."""
        rows = LedgerAccount.objects.exclude(debits=0, credits=0, held=0).order_by("pk")
        return [*rows.values_list("pk", "debits", "credits", "held"), (LedgerTransfer.objects.count(),)]

    def customer(self, which: int) -> str:
        return self.markets[which].customer.public_id

    def provider(self, which: int) -> str:
        return self.markets[which].provider.public_id

    @rule(which=st.integers(0, 2), minor=MINORS, tax=st.integers(0, 50), fee=st.integers(0, 50))
    def top_up(self, which: int, minor: int, tax: int, fee: int) -> None:
        debt = balances.customer_balance(organization=self.customer(which)).debt_nano
        net, on_top = minor * PER_MINOR, tax * PER_MINOR
        parts = paid_in(organization=self.customer(which), net=net, tax=on_top, debt=min(debt, net))
        if fee:
            parts += templates.stripe_fee(amount=fee, currency="usd")
        assert self.post("topup", parts)
        self.bank += net + on_top - fee
        bought = TopUpFactory(
            organization=self.markets[which].customer, amount_minor=minor, tax_minor=tax, charge=f"ch_{self.number}"
        )
        self.bought.append(bought)

    @rule(which=st.integers(0, 2), amount=AMOUNTS)
    def grant_promo(self, which: int, amount: int) -> None:
        assert self.post(
            "promo", templates.promo_grant(organization=self.customer(which), amount=amount, currency="usd")
        )

    @rule(which=st.integers(0, 2), amount=AMOUNTS)
    def expire_promo(self, which: int, amount: int) -> None:
        self.post("expiry", templates.promo_expiry(organization=self.customer(which), amount=amount, currency="usd"))

    @rule(which=st.integers(0, 2), amount=AMOUNTS)
    def lease(self, which: int, amount: int) -> None:
        self.markets[which].lease(amount)

    @rule(which=st.integers(0, 2), prompt=TOKENS, completion=TOKENS, share=st.integers(0, 10_000))
    def serve(self, which: int, prompt: int, completion: int, share: int) -> None:
        market = self.markets[which]
        lease = CreditLease.objects.filter(organization=market.customer).order_by("-pk").first()
        if lease is None:
            return
        market.leases = [lease]
        record = market.serve(prompt=prompt, completion=completion, share_bps=share, closed_at=self.now)
        self.served_nano += record.charge_nano

    @rule(limit=st.integers(1, 3))
    def post_usage(self, limit: int) -> None:
        posting.post_usage(now=self.now, limit=limit)

    @rule()
    def close_lease(self) -> None:
        lease = CreditLease.objects.exclude(state=LeaseState.CLOSED).order_by("pk").first()
        if lease is not None and not UsageQueue.objects.filter(reader="billing").exists():
            leases.LIFE.begin_closing(lease_ids=[lease.pk])
            leases.LIFE.finish(lease_id=lease.pk, last_seq=0, now=self.now)

    @rule(days=st.integers(1, 10))
    def wait(self, days: int) -> None:
        self.now += timedelta(days=days)
        maturity.mature(now=self.now)

    @rule(which=st.integers(0, 1), amount=AMOUNTS)
    def reserve_payout(self, which: int, amount: int) -> None:
        provider = self.provider(which)
        if self.post("reserve", templates.payout_reserved(provider=provider, amount=amount, currency="usd")):
            self.clearing.append((provider, amount))

    @rule(which=st.integers(0, 1))
    def earn(self, which: int) -> None:
        """Go all the way from a purchase to an earning that may be paid out."""
        self.top_up(which=which, minor=1, tax=0, fee=0)
        self.lease(which=which, amount=3_000_000)
        self.serve(which=which, prompt=2_000, completion=1_000, share=8_000)
        self.post_usage(limit=10)
        self.wait(days=20)

    @rule(which=st.integers(0, 1))
    def reserve_all(self, which: int) -> None:
        available = balances.provider_balance(provider=self.provider(which)).available_nano
        if available:
            self.reserve_payout(which=which, amount=available)

    @precondition(lambda self: self.clearing)
    @rule(is_sent=st.booleans())
    def finish_payout(self, is_sent: bool) -> None:
        provider, amount = self.clearing.pop()
        template = templates.payout_sent if is_sent else templates.payout_rejected
        assert self.post("finish", template(provider=provider, amount=amount, currency="usd"))
        if is_sent:
            self.bank -= amount
            self.sent.append((provider, amount))

    @precondition(lambda self: self.sent)
    @rule()
    def reverse_transfer(self) -> None:
        provider, amount = self.sent.pop()
        assert self.post("back", templates.transfer_reversed(provider=provider, amount=amount, currency="usd"))
        self.bank += amount

    @precondition(lambda self: self.bought)
    @rule(pick=st.randoms(use_true_random=False), share=st.integers(1, 100), is_made_at_stripe=st.booleans())
    def reserve_refund(self, pick, share: int, is_made_at_stripe: bool) -> None:
        """Ours take unspent credit alone; what Stripe's dashboard gives back may leave a debt."""
        topup = pick.choice(self.bought)
        purchase = refund_selectors.purchase_of(topup=topup)
        left = purchase.paid - purchase.refunded if is_made_at_stripe else refund_selectors.refundable(topup=topup)
        minor = left * share // 100
        if not minor:
            return
        origin = RefundOrigin.STRIPE if is_made_at_stripe else RefundOrigin.OPERATOR
        wish = Wish(minor, origin, RefundState.SENDING)
        self.refunds.append(refund_moves.set_aside(topup=topup, wish=wish, actor=SYSTEM_ACTOR, now=self.now))

    @precondition(lambda self: self.refunds)
    @rule(is_sent=st.booleans())
    def finish_refund(self, is_sent: bool) -> None:
        refund = self.refunds.pop()
        refund_moves.lock_accounts(refund)
        if is_sent:
            refund_moves.book_sent(refund, now=self.now)
            self.bank -= refund.amount_minor * PER_MINOR
        else:
            refund_moves.book_given_up(refund, now=self.now)
        refund.stripe_refund = f"re_{refund.pk}"
        after = RefundState.SUCCEEDED if is_sent else RefundState.FAILED
        refund_moves.move(refund, after, now=self.now)

    @rule(which=st.integers(0, 2), amount=AMOUNTS, is_won=st.booleans())
    def dispute(self, which: int, amount: int, is_won: bool) -> None:
        organization = self.customer(which)
        credit = ledger.account(Kind.CUSTOMER_CREDIT, organization, currency="usd")
        out = templates.dispute_out(
            organization=organization, amount=amount, free=balances.free_of(credit), currency="usd"
        )
        assert self.post("dispute", out + templates.dispute_fee(amount=15, currency="usd"))
        self.bank -= amount + 15
        debt = balances.customer_balance(organization=organization).debt_nano
        if is_won:
            back = paid_in(organization=organization, net=amount, debt=min(amount, debt))
            assert self.post("won", back)
            self.bank += amount
        elif debt:
            assert self.post("bad", templates.debt_written_off(organization=organization, amount=debt, currency="usd"))

    @rule(amount=AMOUNTS)
    def withdraw(self, amount: int) -> None:
        assert self.post("withdrawal", templates.owner_withdrawal(amount=amount, currency="usd"))
        self.bank -= amount

    @precondition(lambda self: self.posted)
    @rule(pick=st.randoms(use_true_random=False))
    def replay(self, pick) -> None:
        before = self.totals()

        ledger.post(**pick.choice(self.posted) | {"now": self.now, "note": "again"})

        assert self.totals() == before

    @rule()
    def reverse_a_grant(self) -> None:
        tx = LedgerTx.objects.filter(kind="promo", reversed_by=None).order_by("pk").first()
        if tx is None:
            return
        before = self.totals()
        try:
            with transaction.atomic():
                ledger.reverse(tx=tx, reason="mistake", actor=SYSTEM_ACTOR, now=self.now)
        except BelowFloor:
            assert self.totals() == before

    @invariant()
    def books_are_right(self) -> None:
        aside = Counter[str]()
        for provider, amount in self.clearing:
            aside[f"payout_clearing:{provider}"] += amount
        for refund in self.refunds:
            aside[f"refund_clearing:{refund.organization.public_id}"] += refund.amount_minor * PER_MINOR
        bank = {"stripe_balance": self.bank} if self.bank else {}
        assert invariants.broken() == []
        assert invariants.charged() in {None, self.served_nano}
        assert invariants.balances("payout_clearing", "refund_clearing", "stripe_balance") == {**aside, **bank}

    def teardown(self) -> None:
        """The nightly check finds nothing either; then everything is thrown away."""
        found = reconcile.differences(now=START)
        unbalanced = [row for row in transactions.trial_balance() if row.difference_nano]
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)
        assert (found, unbalanced) == ([], [])


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.timeout(1200)
def test_ten_thousand_events_in_any_order_leave_the_books_right():
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=100,
            stateful_step_count=100,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db
def test_the_machine_would_notice(now):
    """The invariant is no empty promise: money that appears from nowhere is a difference."""
    market = Market()
    buy(market.customer, amount=5, key="2")
    LedgerAccount.objects.filter(code=f"customer_credit:{market.customer.public_id}").update(credits=1_000_000_007_000)

    codes = {found.code for found in reconcile.differences(now=OPENED)}

    assert codes == {"ledger_totals"}
