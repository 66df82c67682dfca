"""What is killed: payouts, refunds and automatic purchases, each with what brings them to their end afterwards.

One provider, purchase and customer serve for all kills of a scene, so that a later one also meets what an earlier left.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from portal.accounts.models import Organization
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import Refund, TopUp
from portal.billing.services import auto_topups, refund_reading, refund_sending, refunds, topup_sweep
from portal.core import clock
from portal.integrations import stripe
from portal.payouts.models import Payout
from portal.payouts.services import runs, sending
from portal.providers.models import Provider
from tests.factories.payouts import Shop, balance_of, earn
from tests.integration.credit import saving
from tests.integration.returns import till

_A_WHILE = timedelta(minutes=20)


class Scene(Protocol):
    """One kind of work that moves money, again and again."""

    money_path: str

    def prepare(self) -> None:
        """Commit one more piece of work that nobody has begun."""

    def work(self) -> None:
        """Do the latest piece, as the worker's task does."""

    def sweep(self, now: datetime) -> None:
        """Do what the periodic tasks do."""

    def assert_done_once(self) -> None:
        """Check every row so far, Stripe and ledger against each other."""


@dataclass
class PayingOut:
    """Approved payouts are sent."""

    shop: Shop
    provider: Provider
    payouts: list[Payout] = field(default_factory=list)
    money_path = "/v1/transfers"

    @classmethod
    def begin(cls, shop: Shop) -> "PayingOut":
        """Let a provider in that Stripe can pay."""
        return cls(shop, shop.provider(earned_minor=0, now=clock.now()))

    def prepare(self) -> None:
        """Commit an approved payout."""
        now = clock.now()
        earn(self.provider, minor=2550, now=now, key=str(len(self.payouts)))
        self.shop.fund(2550)
        self.payouts.append(self.shop.approved(self.provider, now=now))

    def work(self) -> None:
        """Send it."""
        sending.send(payout_id=self.payouts[-1].pk, now=clock.now())

    def sweep(self, now: datetime) -> None:
        """Look unknown outcomes up, and send what is approved."""
        runs.run(now=now)

    def assert_done_once(self) -> None:
        """One transfer each, and nothing of them left aside."""
        for payout in self.payouts:
            payout.refresh_from_db()
            assert payout.state == "transferred"
            assert [one["id"] for one in self.shop.transfers(payout)] == [payout.stripe_transfer]
        owner = self.provider.public_id
        assert (balance_of("payout_clearing", owner), balance_of("provider_available", owner)) == (0, 0)


@dataclass
class Refunding:
    """Approved refunds of one purchase are sent."""

    shop: Shop
    topup: TopUp
    refunds: list[Refund] = field(default_factory=list)
    money_path = "/v1/refunds"

    @classmethod
    def begin(cls, shop: Shop) -> "Refunding":
        """Let a customer buy."""
        return cls(shop, till.paid(shop, amount=5000, now=clock.now()))

    def prepare(self) -> None:
        """Commit an approved refund."""
        self.refunds.append(
            refunds.give(topup=self.topup, amount_minor=100, note="", actor=SYSTEM_ACTOR, now=clock.now())
        )

    def work(self) -> None:
        """Send it."""
        refund_sending.send(refund_id=self.refunds[-1].pk, now=clock.now())

    def sweep(self, now: datetime) -> None:
        """Look unknown outcomes up, and send what is approved."""
        refund_reading.sweep(now=now)

    def assert_done_once(self) -> None:
        """One refund each, and nothing of them left aside."""
        for refund in self.refunds:
            refund.refresh_from_db()
            assert refund.state == "succeeded"
        at_stripe = [one["id"] for one in till.refunds_at(self.shop, self.topup)]
        assert sorted(at_stripe) == sorted(refund.stripe_refund or "" for refund in self.refunds)
        assert till.standing(self.topup) == (5000 - 100 * len(self.refunds), 0, 0)


@dataclass
class ChargingTheCard:
    """Credit is low, and the saved card is charged."""

    shop: Shop
    organization: Organization
    topups: list[TopUp] = field(default_factory=list)
    money_path = "/v1/payment_intents"

    @classmethod
    def begin(cls, shop: Shop) -> "ChargingTheCard":
        """Let a customer save its card."""
        now = clock.now()
        organization = saving.customer(shop, now=now, amount=2400)
        saving.turn_on(organization, now=now, cap=100_000)
        return cls(shop, organization)

    def prepare(self) -> None:
        """Commit an automatic purchase whose card nobody has charged yet."""
        now = clock.now()
        saving.spend(self.organization, minor=2000, now=now, key=str(len(self.topups)))
        begun = auto_topups.begin(organization_id=self.organization.pk, now=now)
        assert begun is not None
        self.topups.append(begun)

    def work(self) -> None:
        """Charge it."""
        auto_topups.charge(topup_id=self.topups[-1].pk, now=clock.now())

    def sweep(self, now: datetime) -> None:
        """Finish what nobody finished."""
        topup_sweep.sweep(now=now)

    def assert_done_once(self) -> None:
        """One payment each, and its credit once."""
        for topup in self.topups:
            topup.refresh_from_db()
            assert topup.state == "paid"
            assert [one["id"] for one in saving.payments(self.shop, topup)] == [topup.payment_intent]
        assert saving.credit_minor(self.organization) == 400 + 2000


def come_to_rest(scene: Scene) -> None:
    """Let the periodic tasks run, after the time in which a silent worker counts as alive."""
    later = clock.now() + stripe.SILENT_AFTER
    for number in range(1, 4):
        scene.sweep(later + number * _A_WHILE)
