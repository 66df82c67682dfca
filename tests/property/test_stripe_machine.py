"""Random operation sequences over purchases and payouts: the books agree with Stripe's after every one."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import reconcile as ledger_check
from portal.billing.services import topups
from portal.integrations import stripe
from portal.payouts.errors import PayoutMoveRefused, PayoutNotSendable
from portal.payouts.models import OPEN_STATES, Payout, PayoutState
from portal.payouts.selectors.reconcile import CLEARING_ALARM, differences
from portal.payouts.services import approvals, bank, drafts, reconcile, reviews, runs, sending
from portal.providers.models import Provider
from tests.factories.accounts import UserFactory
from tests.factories.payouts import Shop, balance_of, earn, open_shop

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600), pytest.mark.long]

FAULTS = st.sampled_from(["reset", "500", "429", "409"])
MOMENTS = st.sampled_from(["before", "after"])


class Money(RuleBasedStateMachine):
    """People buy, providers earn and are paid, and Stripe fails now and then."""

    shop: Shop

    @initialize()
    def begin(self) -> None:
        """Open an empty pool."""
        self.undo = transaction.atomic()
        self.undo.__enter__()
        self.now = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
        self.shop.double.control("reset")
        self.operator = UserFactory(is_operator=True)
        self.providers: list[Provider] = []
        self.topups: list[int] = []
        self.number = 0
        for minor in (2550, 1999):
            self.join(minor=minor, action="complete")

    def teardown(self) -> None:
        """Throw the pool away."""
        if hasattr(self, "undo"):
            transaction.set_rollback(True)
            self.undo.__exit__(None, None, None)

    def _next(self) -> str:
        self.number += 1
        self.now += timedelta(minutes=7)
        return str(self.number)

    @rule(amount=st.integers(500, 20_000), action=st.sampled_from(["pay", "bank", "decline"]))
    def buy(self, amount: int, action: str) -> None:
        """Someone goes to the payment page."""
        organization, user = self.shop.customer()
        topup = self.shop.start(organization, user, amount=amount, now=self.now, key=self._next())
        self.shop.post_page(topup.checkout_url, action)
        self.topups.append(topup.pk)

    @rule()
    def look_at_every_purchase(self) -> None:
        """Webhooks, pages and the sweeper all end here."""
        for topup_id in self.topups:
            topups.fulfil(topup_id=topup_id, now=self.now)

    @rule(minor=st.integers(100, 5000), action=st.sampled_from(["complete", "restrict"]))
    def join(self, minor: int, action: str) -> None:
        """A new provider has matured earnings, and has been to Stripe's form."""
        self._next()
        self.providers.append(self.shop.provider(earned_minor=minor, now=self.now, action=action))
        self.shop.fund(minor)

    @rule(minor=st.integers(100, 5000), which=st.integers(0, 9))
    def earn(self, minor: int, which: int) -> None:
        """A provider earns more."""
        earn(self.providers[which % len(self.providers)], minor=minor, now=self.now, key=self._next())
        self.shop.fund(minor)

    @rule(days=st.integers(0, 3))
    def time_passes(self, days: int) -> None:
        """Stripe's clock and ours move on."""
        self.now += timedelta(days=days, hours=1)
        self.shop.double.control("clock/advance", seconds=days * 86_400 + 3600)

    @rule()
    def draft(self) -> None:
        """A run reserves what can be paid; the operator has not looked yet."""
        self._next()
        drafts.draft_payouts(now=self.now, actor=SYSTEM_ACTOR)

    @rule(fault=st.none() | st.tuples(FAULTS, MOMENTS, st.integers(1, 4)))
    def pay_everyone(self, fault: tuple[str, str, int] | None) -> None:
        """The operator approves everything, and the worker passes while Stripe fails or does not."""
        self.draft()
        for payout in Payout.objects.filter(state=PayoutState.RESERVED):
            approvals.approve(
                payout_public_id=payout.public_id, approver=self.operator, actor=SYSTEM_ACTOR, now=self.now
            )
        if fault is not None:
            kind, when, count = fault
            self.shop.double.control("fail", path="/v1/transfers", kind=kind, when=when, count=count)
        runs.run(now=self.now)

    @rule()
    def worker_passes(self) -> None:
        """The periodic task looks up what is unknown and sends what waits."""
        self._next()
        runs.run(now=self.now)

    @rule()
    def send_twice(self) -> None:
        """The same task is delivered twice."""
        for payout in Payout.objects.filter(state=PayoutState.APPROVED):
            for _ in range(2):
                try:
                    sending.send(payout_id=payout.pk, now=self.now)
                except PayoutNotSendable:
                    continue

    @rule()
    def cancel_one(self) -> None:
        """The operator takes one back, if it is not too late."""
        payout = Payout.objects.order_by("pk").first()
        if payout is not None:
            try:
                approvals.cancel(payout_public_id=payout.public_id, reason="no", actor=SYSTEM_ACTOR, now=self.now)
            except PayoutMoveRefused:
                return

    @rule(move=st.sampled_from(["restrict", "complete", "close"]))
    def stripe_moves_an_account(self, move: str) -> None:
        """An account is stopped, freed or closed."""
        for account in self.shop.double.store.all("v2.core.account")[:1]:
            if not account["closed"]:
                self.shop.double.control("account", account=account["id"], move=move)

    @rule(share=st.integers(1, 100))
    def stripe_takes_a_part_back(self, share: int) -> None:
        """A transfer is reversed in part."""
        payout = Payout.objects.filter(state=PayoutState.TRANSFERRED).first()
        left = payout.amount_minor - payout.reversed_minor if payout else 0
        if payout is not None and left:
            amount = max(1, left * share // 100)
            self.shop.double.control("reverse", transfer=payout.stripe_transfer, amount=amount)
            bank.note_transfer(transfer=payout.stripe_transfer, now=self.now)

    @rule()
    def decide_reviews(self) -> None:
        """The operator decides what nobody could settle."""
        for payout in Payout.objects.filter(state=PayoutState.NEEDS_REVIEW):
            try:
                reviews.release(payout_public_id=payout.public_id, reason="no", actor=SYSTEM_ACTOR, now=self.now)
            except reviews.PayoutFound:
                continue

    @invariant()
    def books_agree(self) -> None:
        """Payouts, ledger and Stripe say the same."""
        if not hasattr(self, "number"):
            return
        assert differences(now=self.now) == []
        self._each_payout_is_at_most_one_transfer()
        for provider in self.providers:
            assert balance_of("provider_available", provider.public_id) >= 0

    def _each_payout_is_at_most_one_transfer(self) -> None:
        groups = [one["transfer_group"] for one in self.shop.double.store.all("transfer")]
        assert len(groups) == len(set(groups))
        paid = set(Payout.objects.exclude(stripe_transfer=None).values_list("public_id", flat=True))
        assert paid <= set(groups)

    def settle_everything(self) -> None:
        """Let all faults run out, look at everything again, and compare our balance with Stripe's to the cent."""
        self.shop.double.store.rows("UPDATE faults SET remaining = 0")
        self.now += timedelta(days=1)
        self.shop.double.control("clock/advance", seconds=86_400)
        for topup_id in self.topups:
            topups.fulfil(topup_id=topup_id, now=self.now)
        reconcile.reconcile_unknown(now=self.now)
        self.decide_reviews()
        ours = balance_of("stripe_balance") // 10_000_000
        theirs = sum(one.available_minor + one.pending_minor for one in stripe.payments().balances())
        assert ours == theirs
        found = ledger_check.differences(now=self.now)
        waiting = Payout.objects.filter(state__in=OPEN_STATES, created_at__lt=self.now - CLEARING_ALARM)
        assert {(one.code, one.subject.split()[-1]) for one in found} == {
            ("clearing_too_old", payout.public_id) for payout in waiting
        }


class Settling(Money):
    """The machine, and after each sequence the final account."""

    def teardown(self) -> None:
        """Settle, compare, throw away."""
        try:
            if hasattr(self, "number"):
                self.settle_everything()
        finally:
            super().teardown()


def test_random_operations_keep_the_books_equal(db):
    with open_shop() as shop:
        Settling.shop = shop
        run_state_machine_as_test(
            Settling,
            settings=settings(
                max_examples=16,
                stateful_step_count=15,
                deadline=None,
                derandomize=True,
                phases=[Phase.generate],  # a shorter sequence is not worth the minutes that finding it takes
                suppress_health_check=list(HealthCheck),
            ),
        )
