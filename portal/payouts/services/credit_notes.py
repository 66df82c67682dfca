"""Writes credit notes (self-billed invoices) for payouts that were sent, and corrections; numbers have no gaps."""

from datetime import UTC, datetime

from django.conf import settings

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.core import db, money
from portal.payouts.models import CreditNote, Payout, PayoutTax
from portal.payouts.rules import credit_notes as rules
from portal.payouts.rules import tax as tax_rules


def issue(*, payout: Payout, now: datetime) -> CreditNote | None:
    """Write the payout's credit note, once; None where its tax says that none can be written."""
    tax = PayoutTax.objects.filter(payout=payout).first()
    if tax is None or tax.no_note_reason:
        return None
    return _write(
        payout, tax, key=f"note:{payout.public_id}", net=tax.net_minor, vat=tax.vat_minor, corrects=None, now=now
    )


def correct(*, payout: Payout, total_minor: int, now: datetime) -> CreditNote | None:
    """Correct the payout's credit note by what came back since the last correction; None where there is no note."""
    note = CreditNote.objects.filter(payout=payout, corrects=None).first()
    if note is None:
        return None
    gross, vat_part = (
        tax_rules.part_of(whole, part=total_minor, whole=payout.amount_minor)
        for whole in (note.gross_minor, note.vat_minor)
    )
    earlier = list(CreditNote.objects.filter(corrects=note))
    net = vat_part - gross - sum(row.net_minor for row in earlier)
    vat = -vat_part - sum(row.vat_minor for row in earlier)
    if not net and not vat:
        return None
    key = f"correction:{payout.public_id}:{total_minor}"
    return _write(payout, payout.tax, key=key, net=net, vat=vat, corrects=note, now=now)


def _write(  # noqa: PLR0913  these are the parts of one document
    payout: Payout, tax: PayoutTax, *, key: str, net: int, vat: int, corrects: CreditNote | None, now: datetime
) -> CreditNote:
    issuer, year = settings.ISSUER_TAX_ID or settings.ISSUER_NAME, now.astimezone(UTC).year
    with db.advisory_lock(f"poolhouse.payouts.credit_notes.{issuer}.{year}"):
        known = CreditNote.objects.filter(key=key).first()
        if known is not None:
            return known
        last = CreditNote.objects.filter(issuer=issuer, year=year).order_by("-sequence").first()
        sequence = last.sequence + 1 if last else 1
        number = rules.number(year=year, sequence=sequence)
        content = rules.content(_facts(payout, tax, number, corrects, now), net_minor=net, vat_minor=vat)
        note = CreditNote.objects.create(
            issuer=issuer[:160],
            year=year,
            sequence=sequence,
            number=number,
            provider=payout.provider,
            payout=payout,
            corrects=corrects,
            key=key,
            currency=payout.currency,
            net_minor=net,
            vat_minor=vat,
            content=content,
            sha256=rules.digest(content),
            issued_at=now,
        )
        audit.record(
            actor=SYSTEM_ACTOR,
            event="credit_note.issued",
            subject=note.number,
            now=now,
            organization=payout.provider.organization.public_id,
            detail={"payout": payout.public_id, "sha256": note.sha256},
        )
    return note


def _facts(payout: Payout, tax: PayoutTax, number: str, corrects: CreditNote | None, now: datetime) -> rules.Facts:
    return rules.Facts(
        number=number,
        issued_at=now,
        corrects=corrects.number if corrects else "",
        issuer={
            "name": settings.ISSUER_NAME,
            "address": settings.ISSUER_ADDRESS,
            "country": settings.ISSUER_COUNTRY,
            "tax_id": settings.ISSUER_TAX_ID,
        },
        supplier=tax.supplier,
        payout=payout.public_id,
        transfer=payout.stripe_transfer or "",
        period_start=payout.period_start,
        period_end=payout.period_end,
        currency=payout.currency,
        treatment=tax.treatment,
        rate_bps=tax.rate_bps,
        decimals=money.exponent(payout.currency),
        fee_minor=payout.fee_minor,
    )
