"""However webhooks come — twice, in any order, hours late, or never — the ledger ends the same.

The path is the whole one: a purchase, an automatic one whose answer was lost, a refund made at Stripe, a dispute that
is won, a payout that Stripe takes back in part, and the bank's own payout.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta

import pytest
from django.db import transaction

from portal.accounts.models import Organization
from portal.billing.models import LedgerTransfer, TopUp
from portal.billing.services import auto_topups, reconcile, topup_sweep
from portal.core import clock
from portal.payouts.models import Payout
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import sending
from portal.webhooks.models import StripeEvent
from portal.webhooks.services import catch_up, dispatch
from tests.factories.payouts import Shop
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db

# By kind and by the kinds of accounts, in minor units: the same for each way of delivery.
_EXPECTED = {
    ("topup", "stripe_balance", "customer_credit"): 5_000 + 2_000,
    ("stripe_fee", "stripe_fees", "stripe_balance"): None,
    ("refund_reserved", "customer_credit", "refund_clearing"): 700,
    ("refund_sent", "refund_clearing", "stripe_balance"): 700,
    ("payout_reserved", "provider_available", "payout_clearing"): 2_550,
    ("payout_sent", "payout_clearing", "stripe_balance"): 2_550,
    ("transfer_reversed", "stripe_balance", "provider_available"): 50,
}


class Path:
    """Everything that happens at Stripe; nobody here has heard of any of it yet."""

    def __init__(self, shop: Shop, now: datetime) -> None:
        self.shop, self.now = shop, now
        self.organization: Organization = saving.customer(shop, now=now)
        shop.deliver_all()
        settle()
        self.before = moved()

    def walk(self) -> None:
        shop, now = self.shop, self.now
        user = TopUp.objects.get(organization=self.organization).created_by
        bought = shop.start(self.organization, user, amount=5_000, now=now, key="more")
        saving.pay(shop, bought)
        saving.turn_on(self.organization, now=now, threshold=5_000, amount=2_000)
        shop.double.control("fail", path="/v1/payment_intents", kind="reset", when="after", count=3)
        auto = auto_topups.begin(organization_id=self.organization.pk, now=now)
        assert auto is not None
        assert auto_topups.charge(topup_id=auto.pk, now=now).state == "unknown"
        charge = self._charge(bought)
        shop.double.control("refund", charge=charge, amount=700)
        dispute = shop.double.control("dispute", charge=charge)
        shop.double.control("dispute/end", dispute=dispute["id"], is_won=True)
        shop.fund(10_000)
        payout = shop.approved(shop.provider(earned_minor=2_550, now=now), now=now)
        sent: Payout = sending.send(payout_id=payout.pk, now=now)
        shop.double.control("reverse", transfer=sent.stripe_transfer, amount=50)
        shop.double.control("bank/run")

    def _charge(self, bought: TopUp) -> str:
        """Return the charge of the purchase that was just paid, as the stand-in has it."""
        intents = self.shop.double.store.all("payment_intent")
        paid = next(one for one in intents if one["metadata"].get("topup") == bought.public_id)
        return str(paid["latest_charge"])


def moved() -> Counter[tuple[str, str, str]]:
    """Return what was moved so far, by kind and kinds of accounts (nano); test postings left out."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in LedgerTransfer.objects.select_related("tx", "debit_account", "credit_account"):
        if row.tx.kind != "test" and ":earn:" not in row.tx.idempotency_key:
            found[row.tx.kind, row.debit_account.kind, row.credit_account.kind] += row.amount
    return found


def settle() -> None:
    """Let the periodic tasks pass until no event waits for something that may still come."""
    for minutes in (1, 10, 60, 300):
        at = clock.now() + timedelta(minutes=minutes)
        dispatch.handle_due(now=at)
        topup_sweep.sweep(now=at)


def in_order(shop: Shop, now: datetime) -> None:
    assert set(shop.deliver_all()) == {200}


def each_twice(shop: Shop, now: datetime) -> None:
    for delivery in shop.double.pending():
        assert [shop.deliver(delivery), shop.deliver(delivery)] == [200, 200]


def shuffled(shop: Shop, now: datetime) -> None:
    deliveries = shop.double.pending()
    for delivery in random.Random(20261130).sample(deliveries, len(deliveries)):  # noqa: S311  an order, no secret
        assert shop.deliver(delivery) == 200
        dispatch.handle_due(now=clock.now())


def hours_late(shop: Shop, now: datetime) -> None:
    topup_sweep.sweep(now=clock.now() + timedelta(hours=5))
    in_order(shop, now)


def half_of_them(shop: Shop, now: datetime) -> None:
    for delivery in shop.double.pending()[::2]:
        assert shop.deliver(delivery) == 200
    never(shop, now)


def never(shop: Shop, now: datetime) -> None:
    assert catch_up.catch_up(now=clock.now() + timedelta(minutes=5)) > 0


@contextmanager
def taken_back(shop: Shop) -> Iterator[None]:
    """Let things happen, here and at Stripe, and leave both as they were before."""
    at_stripe = shop.double.store._db
    with closing(sqlite3.connect(":memory:")) as kept:
        at_stripe.backup(kept)
        with transaction.atomic():
            yield
            transaction.set_rollback(True)
        kept.backup(at_stripe)


def test_the_ledger_ends_the_same(shop, subtests):
    now = clock.now()
    path = Path(shop, now)
    path.walk()
    walked, waiting = moved(), [one.number for one in shop.double.pending()]

    for deliver in (in_order, each_twice, shuffled, hours_late, half_of_them, never):
        with subtests.test(deliver.__name__), taken_back(shop):
            assert [one.number for one in shop.double.pending()] == waiting
            assert moved() == walked
            deliver(shop, now)
            settle()
            require_the_same(path)


def require_the_same(path: Path) -> None:
    """What the ledger must say at the end, however it came to hear of it."""
    assert list(StripeEvent.objects.filter(state__in=["pending", "failed"]).values_list("type", "error")) == []
    after = moved()
    after.subtract(path.before)
    told = {key: nano // 10**7 for key, nano in after.items() if nano and not key[0].startswith("dispute")}
    expected = {key: told.get(key) if minor is None else minor for key, minor in _EXPECTED.items()}
    assert told == expected
    disputed = sum(nano for key, nano in after.items() if key[0] == "dispute_out")
    assert sum(nano for key, nano in after.items() if key[0] == "dispute_back") == disputed > 0
    found = [*reconcile.differences(now=clock.now()), *differences(now=clock.now())]
    assert [one for one in found if one.code != "stripe_differs"] == []
