"""Credit notes as pages and files read them."""

from django.db.models import QuerySet

from portal.core.errors import NotFound
from portal.payouts.models import CreditNote, TaxProfile
from portal.providers.models import Provider


def of_provider(*, provider: Provider, limit: int = 200) -> QuerySet[CreditNote]:
    """Return a provider's credit notes, newest first."""
    return CreditNote.objects.filter(provider=provider).order_by("-issued_at", "-id")[:limit]


def note_of(*, provider: Provider, public_id: str) -> CreditNote:
    """Return one credit note of the provider; a stranger's reads as missing. Raises NotFound."""
    note = CreditNote.objects.filter(provider=provider, public_id=public_id).first()
    if note is None:
        raise NotFound("there is no such credit note", param="note")
    return note


def note(public_id: str) -> CreditNote:
    """Return one credit note for the operator. Raises NotFound."""
    found = CreditNote.objects.select_related("provider").filter(public_id=public_id).first()
    if found is None:
        raise NotFound("there is no such credit note", param="note")
    return found


def newest(*, year: int, limit: int = 200) -> QuerySet[CreditNote]:
    """Return a year's credit notes, newest first."""
    rows = CreditNote.objects.select_related("provider").filter(year=year)
    return rows.order_by("-issued_at", "-id")[:limit]


def profile_of(*, provider: Provider) -> TaxProfile | None:
    """Return the provider's tax profile."""
    return TaxProfile.objects.filter(provider=provider).first()


def to_confirm(*, limit: int = 100) -> QuerySet[TaxProfile]:
    """Return businesses' tax profiles that wait for an operator, oldest first."""
    rows = TaxProfile.objects.select_related("provider").filter(status="business", confirmed_at=None)
    return rows.order_by("changed_at", "pk")[:limit]
