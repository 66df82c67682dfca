"""The VAT of payouts: the provider is paid net and VAT, the pool reclaims what it paid."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import ledger, templates
from portal.core import money
from portal.payouts.models import Payout, PayoutTax, TaxProfile, TaxStatus
from portal.payouts.rules import tax as rules
from portal.payouts.rules.tax import Supplier, Treatment, Verdict
from portal.payouts.services import credit_notes
from portal.providers.models import Provider

ISSUER = "issuer_not_set_up"
NO_PROFILE = "no_tax_profile"
NO_CONSENT = "no_consent"
NOT_CONFIRMED = "not_confirmed"
NO_TAX_ID = "no_tax_id"

WORDS = {
    ISSUER: "The operator has not set up who writes credit notes.",
    NO_PROFILE: "You have not filled in your tax profile.",
    NO_CONSENT: "You have not agreed that the pool writes your invoices.",
    NOT_CONFIRMED: "An operator has not confirmed your tax profile yet.",
    NO_TAX_ID: "Your tax number is missing.",
}


@dataclass(frozen=True, slots=True)
class Assessment:
    """How one payout will be taxed; `no_note_reason` says why no credit note will be written, and no VAT paid."""

    verdict: Verdict
    net_minor: int
    vat_minor: int
    supplier: dict[str, str]
    no_note_reason: str


def assess(*, provider: Provider, net_minor: int) -> Assessment:
    """Say which VAT comes on top of a net amount."""
    profile = TaxProfile.objects.filter(provider=provider).first()
    verdict = _verdict(profile)
    missing = missing_for(profile, verdict)
    rate = 0 if missing else verdict.rate_bps
    step = money.payout_step_minor(settings.CURRENCY)
    return Assessment(
        verdict=verdict,
        net_minor=net_minor,
        vat_minor=rules.vat_minor(net_minor, rate_bps=rate, step_minor=step),
        supplier=_supplier(profile),
        no_note_reason=missing,
    )


def missing_for(profile: TaxProfile | None, verdict: Verdict) -> str:
    """Return what keeps the pool from writing credit notes for the provider, or an empty text."""
    if not (settings.ISSUER_NAME and settings.ISSUER_COUNTRY):
        return ISSUER
    if profile is None:
        return NO_PROFILE
    if profile.consented_at is None:
        return NO_CONSENT
    if profile.status == TaxStatus.BUSINESS and profile.confirmed_at is None:
        return NOT_CONFIRMED
    return NO_TAX_ID if verdict.treatment == Treatment.UNKNOWN else ""


def verdict_of(profile: TaxProfile | None) -> Verdict:
    """Return how supplies of a provider with this profile are taxed."""
    return _verdict(profile)


def keep(payout: Payout, assessment: Assessment, *, now: datetime) -> None:
    """Note how the payout is taxed, and owe the provider its VAT; in the transaction that reserves the payout."""
    row = PayoutTax.objects.create(
        payout=payout,
        treatment=assessment.verdict.treatment,
        rate_bps=assessment.verdict.rate_bps if assessment.vat_minor else 0,
        net_minor=assessment.net_minor,
        vat_minor=assessment.vat_minor,
        supplier=assessment.supplier,
        no_note_reason=assessment.no_note_reason,
    )
    if row.vat_minor:
        _post(row, "payout_vat", row.vat_minor, "", now)


def release(payout: Payout, *, now: datetime) -> None:
    """The payout will not be sent: its VAT is not owed."""
    row = PayoutTax.objects.select_related("payout__provider").filter(payout=payout).first()
    if row is not None:
        _give_back(row, row.vat_minor, "released", now)


def take_back(payout: Payout, *, total_minor: int, now: datetime) -> None:
    """So much of the payout came back by now: its part of the VAT is not owed, and the credit note is corrected."""
    row = PayoutTax.objects.select_related("payout__provider").filter(payout=payout).first()
    if row is None:
        return
    _give_back(
        row,
        rules.part_of(row.vat_minor, part=total_minor, whole=payout.amount_minor),
        str(total_minor),
        now,
    )
    credit_notes.correct(payout=payout, total_minor=total_minor, now=now)


def _give_back(row: PayoutTax, total_minor: int, cause: str, now: datetime) -> None:
    delta = total_minor - row.returned_minor
    if delta <= 0:
        return
    _post(row, "payout_vat_returned", delta, f":{cause}", now)
    row.returned_minor = total_minor
    row.save(update_fields=["returned_minor"])


def _post(row: PayoutTax, kind: str, minor: int, suffix: str, now: datetime) -> None:
    payout = row.payout
    maker = templates.payout_vat if kind == "payout_vat" else templates.payout_vat_returned
    ledger.post(
        kind=kind,
        key=f"{kind}:{payout.public_id}{suffix}",
        source_type="payout",
        source_id=payout.public_id,
        transfers=maker(
            provider=payout.provider.public_id,
            amount=money.nano_from_minor(minor, payout.currency),
            currency=payout.currency,
        ),
        actor=SYSTEM_ACTOR,
        now=now,
    )


def _verdict(profile: TaxProfile | None) -> Verdict:
    if profile is None:
        return Verdict(Treatment.UNKNOWN, 0)
    supplier = Supplier(
        is_business=profile.status == TaxStatus.BUSINESS,
        is_small_business=profile.is_small_business,
        country=profile.country,
        tax_id=profile.tax_id,
        vat_rate_bps=profile.vat_rate_bps,
    )
    return rules.verdict(supplier, issuer_country=settings.ISSUER_COUNTRY)


def _supplier(profile: TaxProfile | None) -> dict[str, str]:
    """Return the profile as the credit note will show it, whatever it is changed to later."""
    if profile is None:
        return {}
    return {
        "name": profile.name,
        "address": profile.address,
        "country": profile.country,
        "tax_id": profile.tax_id,
        "status": profile.status,
        "consent_version": profile.consent_version,
        "consented_at": profile.consented_at.isoformat() if profile.consented_at else "",
    }
