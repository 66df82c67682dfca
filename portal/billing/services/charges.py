"""Notes which charge and card paid a purchase, and has the customer judged by it."""

from datetime import datetime

from portal.billing.models import PaidCharge, TopUp
from portal.billing.rules.related import FactKind
from portal.billing.services import related, risk
from portal.integrations import queue
from portal.integrations.stripe_types import SavedCard


def note(
    *, topup: TopUp, charge: str, payment: str, card: SavedCard | None, is_three_d_secure: bool, now: datetime
) -> None:
    """Keep the charge of a paid purchase, once; call it in the transaction that credits it.

    The customer counts as new until it is judged, and is judged after commit.
    """
    if not charge:
        return
    fingerprint = card.fingerprint if card else ""
    PaidCharge.objects.get_or_create(
        topup=topup,
        defaults={
            "organization": topup.organization,
            "charge": charge,
            "payment": payment,
            "card_digest": related.digest_of(kind=FactKind.CARD, value=fingerprint) if fingerprint else "",
            "card_brand": card.brand[:32] if card else "",
            "card_last4": card.last4[:4] if card else "",
            "card_country": card.country[:2] if card else "",
            "is_three_d_secure": is_three_d_secure,
            "paid_at": now,
        },
    )
    risk.begin(organization_id=topup.organization_id, now=now)
    related.note(organization=topup.organization, kind=FactKind.CARD, value=fingerprint, source="topup", now=now)
    queue.after_commit("billing.judge_customer", organization_id=topup.organization_id)
