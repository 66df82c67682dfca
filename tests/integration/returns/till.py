"""What people do with a purchase that has been paid: spend it, want it back, dispute it."""

from datetime import datetime

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerTx, TopUp
from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger, topups
from portal.core import money
from portal.integrations import stripe
from tests.factories.payouts import Shop, balance_of


def paid(shop: Shop, *, amount: int, now: datetime) -> TopUp:
    """Return a purchase whose credit is here."""
    topup = shop.buy(amount=amount, now=now)
    return topups.fulfil(topup_id=topup.pk, now=now)


def spend(topup: TopUp, *, minor: int, now: datetime, key: str = "1") -> LedgerTx:
    """Use some of the organization's credit up."""
    owner = topup.organization.public_id
    credit = ledger.account(Kind.CUSTOMER_CREDIT, owner, currency=topup.currency)
    revenue = ledger.account(Kind.PLATFORM_REVENUE, currency=topup.currency)
    return ledger.post(
        kind="usage_by_hand",
        key=f"spend:{topup.public_id}:{key}",
        source_type="test",
        source_id=key,
        transfers=[ledger.Transfer(credit, revenue, money.nano_from_minor(minor, topup.currency))],
        actor=SYSTEM_ACTOR,
        now=now,
    )


def standing(topup: TopUp) -> tuple[int, int, int]:
    """Return credit, debt and what is set aside for refunds, in minor units."""
    owner, per_minor = topup.organization.public_id, money.nano_per_minor(topup.currency)
    kinds = ("customer_credit", "customer_receivable", "refund_clearing")
    credit, debt, aside = (balance_of(kind, owner, currency=topup.currency) // per_minor for kind in kinds)
    return credit, debt, aside


def books_differ_by(topup: TopUp) -> int:
    """Return by how much Stripe's balance differs from ours, in minor units."""
    ours = balance_of("stripe_balance", currency=topup.currency) // money.nano_per_minor(topup.currency)
    return sum(one.available_minor + one.pending_minor for one in stripe.payments().balances()) - ours


def refunds_at(shop: Shop, topup: TopUp) -> list[dict[str, object]]:
    """Return what the stand-in has given back of the purchase."""
    return [one for one in shop.double.store.all("refund") if one["charge"] == topup.charge]
