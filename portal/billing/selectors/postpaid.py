"""Who pays afterwards, what was drawn, and which bills are open."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet, Sum

from portal.accounts.models import Organization
from portal.billing.models.credit import CreditLease, LeaseState
from portal.billing.models.ledger import LedgerTransfer
from portal.billing.models.postpaid import Postpaid, PostpaidBill, PostpaidState
from portal.billing.rules import accounts as chart
from portal.billing.rules import postpaid as rules
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.core.errors import NotFound

LIMIT_KIND = "postpaid_limit"


@dataclass(frozen=True, slots=True)
class OpenBill:
    """A bill with what of it is still open (nano)."""

    bill: PostpaidBill
    open_nano: int

    @property
    def is_open(self) -> bool:
        """Whether anything of it is still to be paid."""
        return self.open_nano > 0


def terms_of(*, organization: Organization) -> Postpaid | None:
    """Return the organization's terms of paying afterwards, None where it was never invited."""
    return Postpaid.objects.filter(organization=organization).first()


def is_active(*, organization_id: int) -> bool:
    """Tell whether the organization may draw on its line now."""
    return Postpaid.objects.filter(organization_id=organization_id, state=PostpaidState.ACTIVE).exists()


def drawn_until(*, organization: str, at: datetime | None = None, since: datetime | None = None) -> int:
    """Return what an organization (public id) ever drew on its line, before `at` and from `since` where given."""
    when = Q()
    if at is not None:
        when &= Q(tx__effective_at__lt=at)
    if since is not None:
        when &= Q(tx__effective_at__gte=since)
    code = chart.code(Kind.POSTPAID_LINE, organization)
    rows = LedgerTransfer.objects.filter(when, debit_account__code=code).exclude(tx__kind=LIMIT_KIND)
    return int(rows.aggregate(total=Sum("amount", default=0))["total"])


def settled(*, organization: str) -> int:
    """Return what an organization ever paid of its draws, or was written off."""
    return drawn_until(organization=organization) - balances.customer_balance(organization=organization).drawn_nano


def bill_of(*, organization: Organization, public_id: str) -> PostpaidBill:
    """Return one of the organization's bills. Raises NotFound."""
    rows = PostpaidBill.objects.select_related("statement", "organization")
    bill = rows.filter(organization=organization, public_id=public_id).first()
    if bill is None:
        raise NotFound("there is no such bill")
    return bill


def bill(*, public_id: str) -> PostpaidBill:
    """Return a bill, for the operator. Raises NotFound."""
    row = PostpaidBill.objects.select_related("statement", "organization").filter(public_id=public_id).first()
    if row is None:
        raise NotFound("there is no such bill")
    return row


def bills_of(*, organization: Organization, limit: int = 36) -> list[OpenBill]:
    """Return the organization's bills, newest first, with what of each is open."""
    rows = list(_bills().filter(organization=organization).order_by("-starts_at")[:limit])
    return with_open(rows) if rows else []


def unsettled(*, organization_id: int) -> list[PostpaidBill]:
    """Return an organization's bills that were not settled when last looked at, oldest first."""
    return list(_bills().filter(organization_id=organization_id, settled_at=None).order_by("starts_at"))


def open_bills(*, limit: int = 200) -> list[OpenBill]:
    """Return the open bills of everyone, the first due first."""
    rows = list(_bills().filter(settled_at=None).order_by("due_at", "pk")[:limit])
    return with_open(rows)


def with_open(rows: list[PostpaidBill]) -> list[OpenBill]:
    """Return the bills with what of each is open."""
    owners = {row.organization.public_id for row in rows}
    paid = {owner: settled(organization=owner) for owner in owners}
    return [OpenBill(row, open_of(row, settled_nano=paid[row.organization.public_id])) for row in rows]


def open_of(row: PostpaidBill, *, settled_nano: int) -> int:
    """Return what of a bill is open where so much was ever settled."""
    return rules.outstanding(
        total_drawn_nano=row.total_drawn_nano, drawn_nano=row.drawn_nano, settled_nano=settled_nano
    )


def line_leases(*, organization: str) -> list[int]:
    """Return the open leases on an organization's (public id) line."""
    code = chart.code(Kind.POSTPAID_LINE, organization)
    rows = CreditLease.objects.filter(account__code=code, state=LeaseState.OPEN)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def watched() -> list[int]:
    """Return the organizations that have an open bill, or are stopped for one."""
    rows = Postpaid.objects.filter(
        Q(state=PostpaidState.STOPPED)
        | Q(organization_id__in=PostpaidBill.objects.filter(settled_at=None).values("organization_id"))
    )
    return list(rows.order_by("organization_id").values_list("organization_id", flat=True))


def without_bill(*, starts_at: datetime) -> list[Organization]:
    """Return the organizations that were ever invited and accepted, and have no bill of the month that began then."""
    billed = PostpaidBill.objects.filter(starts_at=starts_at).values("organization_id")
    rows = Postpaid.objects.exclude(accepted_at=None).exclude(organization_id__in=billed)
    return [row.organization for row in rows.select_related("organization").order_by("organization_id")]


def _bills() -> QuerySet[PostpaidBill]:
    return PostpaidBill.objects.select_related("organization", "statement")
