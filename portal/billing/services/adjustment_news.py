"""Tells a provider's owners and its contact of a correction of what it is owed."""

from datetime import datetime

from portal.accounts.models import Membership, Role
from portal.billing.models import AdjustmentKind, ProviderAdjustment
from portal.billing.rules import amounts
from portal.core.money import decimal_text
from portal.notifications import services as notifications


def tell(row: ProviderAdjustment, *, now: datetime) -> None:
    """Write one message a person, in the transaction that books the correction."""
    for address in _addresses(row):
        notifications.send(
            key=f"adjustment:{row.public_id}:{address}",
            to=address,
            template="provider_adjustment",
            context={
                "is_clawback": row.kind == AdjustmentKind.CLAWBACK,
                "adjustment": row.public_id,
                "amount": amounts.written(row.amount_nano, row.currency),
                "reason": row.get_reason_display(),
                "note": row.note,
                "evidence": row.evidence,
                "held": _text(row.from_held_nano),
                "pending": _text(row.from_pending_nano),
                "reserve": _text(row.from_reserve_nano),
                "available": _text(row.from_available_nano),
                "debt": _text(row.to_debt_nano),
                "currency": row.currency.upper(),
            },
            now=now,
        )


def _text(nano: int) -> str:
    return decimal_text(nano) if nano else ""


def _addresses(row: ProviderAdjustment) -> list[str]:
    owners = Membership.objects.filter(organization=row.provider.organization, role=Role.OWNER)
    found = [row.provider.contact_email, *owners.order_by("pk").values_list("user__email", flat=True)]
    return sorted({address.lower() for address in found if address})
