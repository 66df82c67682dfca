"""What must be equal between the VAT of payouts, the ledger and the credit notes, for `ledger_check`."""

from collections.abc import Iterator

from django.db.models import Count, Max, Sum

from portal.billing.models import LedgerTransfer
from portal.billing.rules.differences import Difference
from portal.core import money
from portal.payouts.models import CreditNote, PayoutState, PayoutTax
from portal.payouts.rules import credit_notes as rules

_SENT = [PayoutState.TRANSFERRED, PayoutState.REVERSED]


def differences() -> Iterator[Difference]:
    """Yield VAT that is booked otherwise than noted, missing or changed credit notes, and gaps in their numbers."""
    yield from _vat("payout_vat", "vat_minor")
    yield from _vat("payout_vat_returned", "returned_minor")
    yield from _missing()
    yield from _damaged()
    yield from _gaps()


def _vat(kind: str, field: str) -> Iterator[Difference]:
    booked = LedgerTransfer.objects.filter(tx__kind=kind).values("tx__source_id").annotate(sum=Sum("amount"))
    actual = {str(row["tx__source_id"]): int(row["sum"]) for row in booked}
    rows = PayoutTax.objects.filter(**{f"{field}__gt": 0}).values_list("payout__public_id", "payout__currency", field)
    expected = {name: int(money.nano_from_minor(minor, currency)) for name, currency, minor in rows}
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name, 0) != actual.get(name, 0):
            yield Difference(kind, name, str(expected.get(name, 0)), str(actual.get(name, 0)))


def _missing() -> Iterator[Difference]:
    rows = PayoutTax.objects.filter(no_note_reason="", payout__state__in=_SENT, payout__credit_notes=None)
    for name in rows.order_by("pk").values_list("payout__public_id", flat=True):
        yield Difference("credit_note_missing", name, "a credit note", "none")


def _damaged() -> Iterator[Difference]:
    for note in CreditNote.objects.order_by("pk").iterator():
        actual = rules.digest(note.content)
        if actual != note.sha256:
            yield Difference("credit_note_changed", note.number, note.sha256, actual)


def _gaps() -> Iterator[Difference]:
    series = CreditNote.objects.values("issuer", "year").annotate(last=Max("sequence"), count=Count("pk"))
    for row in series.order_by("issuer", "year"):
        if row["last"] != row["count"]:
            subject = f"{row['issuer']} {row['year']}"
            yield Difference("credit_note_gap", subject, f"{row['last']} notes", f"{row['count']} notes")
