"""What is killed: a payout, a refund and an automatic purchase, each with what brings it to its end afterwards."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import Refund, TopUp
from portal.billing.services import auto_topups, refund_reading, refund_sending, refunds, topup_sweep
from portal.core import clock
from portal.integrations import stripe
from portal.payouts.models import Payout
from portal.payouts.services import runs, sending
from tests.factories.payouts import Shop, balance_of
from tests.integration.credit import saving
from tests.integration.returns import till

_A_WHILE = timedelta(minutes=20)


class Scene(Protocol):
    """One piece of work that moves money."""

    money_path: str

    def work(self) -> None:
        """Do it, as the worker's task does."""

    def sweep(self, now: datetime) -> None:
        """Do what the periodic tasks do."""

    def assert_done_once(self) -> None:
        """Check row, Stripe and ledger against each other."""


@dataclass
class PayingOut:
    """An approved payout is sent."""

    shop: Shop
    payout: Payout
    money_path = "/v1/transfers"

    @classmethod
    def begin(cls, shop: Shop) -> "PayingOut":
        """Commit an approved payout."""
        now = clock.now()
        provider = shop.provider(earned_minor=2550, now=now)
        shop.fund(2550)
        return cls(shop, shop.approved(provider, now=now))

    def work(self) -> None:
        """Send it."""
        sending.send(payout_id=self.payout.pk, now=clock.now())

    def sweep(self, now: datetime) -> None:
        """Look unknown outcomes up, and send what is approved."""
        runs.run(now=now)

    def assert_done_once(self) -> None:
        """One transfer, and nothing of it left aside."""
        self.payout.refresh_from_db()
        owner = self.payout.provider.public_id
        assert self.payout.state == "transferred"
        assert [one["id"] for one in self.shop.transfers(self.payout)] == [self.payout.stripe_transfer]
        assert (balance_of("payout_clearing", owner), balance_of("provider_available", owner)) == (0, 0)


@dataclass
class Refunding:
    """An approved refund is sent."""

    shop: Shop
    refund: Refund
    money_path = "/v1/refunds"

    @classmethod
    def begin(cls, shop: Shop) -> "Refunding":
        """Commit an approved refund of a paid purchase."""
        now = clock.now()
        topup = till.paid(shop, amount=5000, now=now)
        refund = refunds.give(topup=topup, amount_minor=2000, note="", actor=SYSTEM_ACTOR, now=now)
        return cls(shop, refund)

    def work(self) -> None:
        """Send it."""
        refund_sending.send(refund_id=self.refund.pk, now=clock.now())

    def sweep(self, now: datetime) -> None:
        """Look unknown outcomes up, and send what is approved."""
        refund_reading.sweep(now=now)

    def assert_done_once(self) -> None:
        """One refund, and nothing of it left aside."""
        self.refund.refresh_from_db()
        assert self.refund.state == "succeeded"
        assert [one["id"] for one in till.refunds_at(self.shop, self.refund.topup)] == [self.refund.stripe_refund]
        assert till.standing(self.refund.topup) == (3000, 0, 0)


@dataclass
class ChargingTheCard:
    """Credit is low, and the saved card is charged."""

    shop: Shop
    topup: TopUp
    money_path = "/v1/payment_intents"

    @classmethod
    def begin(cls, shop: Shop) -> "ChargingTheCard":
        """Commit an automatic purchase whose card nobody has charged yet."""
        now = clock.now()
        organization = saving.customer(shop, now=now)
        saving.turn_on(organization, now=now)
        saving.spend(organization, minor=600, now=now, key="1")
        begun = auto_topups.begin(organization_id=organization.pk, now=now)
        assert begun is not None
        return cls(shop, begun)

    def work(self) -> None:
        """Charge it."""
        auto_topups.charge(topup_id=self.topup.pk, now=clock.now())

    def sweep(self, now: datetime) -> None:
        """Finish what nobody finished."""
        topup_sweep.sweep(now=now)

    def assert_done_once(self) -> None:
        """One payment, and its credit once."""
        self.topup.refresh_from_db()
        assert self.topup.state == "paid"
        assert [one["id"] for one in saving.payments(self.shop, self.topup)] == [self.topup.payment_intent]
        assert saving.credit_minor(self.topup.organization) == 400 + 2000


def come_to_rest(scene: Scene) -> None:
    """Let the periodic tasks run, after the time in which a silent worker counts as alive."""
    later = clock.now() + stripe.SILENT_AFTER
    for number in range(1, 4):
        scene.sweep(later + number * _A_WHILE)
