"""Row locks of this room, always in this order: automatic top-up, card, purchase, bank transfer, postpaid, grants,
credit leases, budget leases, budget windows, ledger accounts.

Within a table rows are locked by primary key. NO KEY UPDATE, because transfers that merely name an account must not
wait for it.
"""

from collections.abc import Iterable

from django.db import connection

from portal.billing.models.alerts import CreditAlert
from portal.billing.models.auto_topups import AutoTopUp, CustomerCard
from portal.billing.models.bank_transfers import BankTransfer
from portal.billing.models.credit import BudgetLease, BudgetWindow, CreditLease
from portal.billing.models.disputes import Dispute, FraudWarning
from portal.billing.models.grants import PromoGrant
from portal.billing.models.ledger import LedgerAccount
from portal.billing.models.postpaid import Postpaid
from portal.billing.models.refunds import Refund
from portal.billing.models.stripe_books import StripeMovement
from portal.billing.models.topups import TopUp
from portal.core.errors import NotFound

_PERIODS = "poolhouse.billing.periods"


def credit_leases(ids: Iterable[int]) -> dict[int, CreditLease]:
    """Lock credit leases and return them by id; unknown ids are left out."""
    rows = CreditLease.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=set(ids)).order_by("pk")
    return {row.pk: row for row in rows}


def budget_leases(ids: Iterable[int]) -> dict[int, BudgetLease]:
    """Lock budget leases and return them by id; unknown ids are left out."""
    rows = BudgetLease.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=set(ids)).order_by("pk")
    return {row.pk: row for row in rows}


def budget_windows(ids: Iterable[int]) -> dict[int, BudgetWindow]:
    """Lock budget windows and return them by id; unknown ids are left out."""
    rows = BudgetWindow.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=set(ids)).order_by("pk")
    return {row.pk: row for row in rows}


def auto_topup(organization_id: int) -> AutoTopUp | None:
    """Lock an organization's settings of automatic purchases, under which one begins and ends; None without any."""
    rows = AutoTopUp.objects.select_for_update(no_key=True, of=("self",)).select_related("organization", "card")
    return rows.filter(organization_id=organization_id).first()


def card(card_id: int) -> CustomerCard:
    """Lock a saved card and return it with its organization."""
    rows = CustomerCard.objects.select_for_update(no_key=True, of=("self",)).select_related("organization")
    return rows.get(pk=card_id)


def credit_alert(organization_id: int) -> CreditAlert | None:
    """Lock an organization's alert of low credit; None where it has none."""
    rows = CreditAlert.objects.select_for_update(no_key=True, of=("self",)).select_related("organization")
    return rows.filter(organization_id=organization_id).first()


def bank_transfer(public_id: str) -> BankTransfer:
    """Lock a customer's bank transfer and return it with its organization. Raises NotFound."""
    rows = BankTransfer.objects.select_for_update(no_key=True, of=("self",)).select_related("organization")
    row = rows.filter(public_id=public_id).first()
    if row is None:
        raise NotFound("there is no such bank transfer")
    return row


def postpaid(organization_id: int) -> Postpaid | None:
    """Lock an organization's terms of paying afterwards; None where it was never invited."""
    rows = Postpaid.objects.select_for_update(no_key=True, of=("self",)).select_related("organization")
    return rows.filter(organization_id=organization_id).first()


def grants(organization_id: int) -> list[PromoGrant]:
    """Lock the grants of which an organization may have something left, by primary key."""
    rows = PromoGrant.objects.select_for_update(no_key=True, of=("self",)).filter(rest_nano__gt=0)
    return list(rows.filter(organization_id=organization_id).order_by("pk"))


def topup(topup_id: int) -> TopUp:
    """Lock a purchase, before any ledger account, and return it with its organization."""
    return TopUp.objects.select_for_update(no_key=True, of=("self",)).select_related("organization").get(pk=topup_id)


def refund(refund_id: int) -> Refund:
    """Lock a refund, after its purchase and before any ledger account, and return it with what it belongs to."""
    rows = Refund.objects.select_for_update(no_key=True, of=("self",)).select_related("organization", "topup")
    return rows.get(pk=refund_id)


def stripe_movement(movement_id: int) -> StripeMovement:
    """Lock one line of Stripe's books, before any ledger account, and return it."""
    return StripeMovement.objects.select_for_update(no_key=True, of=("self",)).get(pk=movement_id)


def dispute(dispute_id: int) -> Dispute:
    """Lock a dispute, before any ledger account, and return it with what it belongs to."""
    rows = Dispute.objects.select_for_update(no_key=True, of=("self",)).select_related("organization", "topup")
    return rows.get(pk=dispute_id)


def fraud_warning(warning_id: int) -> FraudWarning:
    """Lock a fraud warning, before any ledger account, and return it with what it belongs to."""
    rows = FraudWarning.objects.select_for_update(no_key=True, of=("self",)).select_related("organization", "topup")
    return rows.get(pk=warning_id)


def accounts(ids: Iterable[int]) -> dict[int, LedgerAccount]:
    """Lock those ledger accounts that keep totals and return them by id; the hot system accounts are never locked."""
    rows = (
        LedgerAccount.objects.select_for_update(no_key=True).filter(pk__in=set(ids), keeps_totals=True).order_by("pk")
    )
    return {row.pk: row for row in rows}


def open_periods() -> None:
    """Keep every period as open as it is now until the transaction ends; many may hold this at once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(hashtextextended(%s, 0))", [_PERIODS])


def closing_period() -> None:
    """Wait until nobody writes to the ledger, and keep it so until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [_PERIODS])
