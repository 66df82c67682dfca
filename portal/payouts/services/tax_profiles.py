"""A provider's tax profile: filled in by the provider, confirmed by an operator, with the consent to self-billing."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue
from portal.payouts.models import TaxProfile, TaxStatus
from portal.payouts.rules import tax as rules
from portal.providers import locks
from portal.providers.models import Provider
from portal.providers.rules.countries import require_country
from portal.providers.selectors import agreements


class NothingToConfirm(Conflict):
    """The provider has no tax profile that waits for confirmation, or changed it meanwhile."""

    code = "nothing_to_confirm"


@dataclass(frozen=True, slots=True)
class Given:
    """What the provider filled in; `does_consent`: the pool may write its invoices."""

    status: str
    is_small_business: bool
    name: str
    address: str
    country: str
    tax_id: str
    vat_rate_bps: int
    does_consent: bool


def save(*, provider_id: str, given: Given, actor: Actor, now: datetime) -> TaxProfile:
    """Keep the profile; a business's has to be confirmed (again) before VAT is paid. Raises InvalidValue."""
    fields = _fields(given)
    with transaction.atomic():
        provider = locks.provider(provider_id)
        require_active(provider.organization)
        profile = TaxProfile.objects.filter(provider=provider).first() or TaxProfile(provider=provider)
        is_changed = any(getattr(profile, name) != value for name, value in fields.items())
        for name, value in fields.items():
            setattr(profile, name, value)
        if is_changed or profile.pk is None:
            profile.confirmed_at, profile.confirmed_by, profile.changed_at = None, "", now
        _note_consent(profile, given, actor, now)
        profile.save()
        _record(profile, "tax_profile.saved", actor=actor, now=now, detail={**fields, "consent": given.does_consent})
    return profile


def confirm(*, provider_id: str, changed_at: datetime, actor: Actor, now: datetime) -> TaxProfile:
    """Confirm the profile as it was read: from now on VAT is paid where it is due. Raises NothingToConfirm."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        profile = TaxProfile.objects.filter(provider=provider, changed_at=changed_at).first()
        if profile is None:
            raise NothingToConfirm("the tax profile was changed meanwhile; read it again")
        profile.confirmed_at, profile.confirmed_by = now, actor.public_id
        profile.save(update_fields=["confirmed_at", "confirmed_by"])
        _record(profile, "tax_profile.confirmed", actor=actor, now=now, detail={"vat_rate_bps": profile.vat_rate_bps})
    return profile


def _note_consent(profile: TaxProfile, given: Given, actor: Actor, now: datetime) -> None:
    """Keep under which agreement the provider agreed, and who and when; taking it back empties that."""
    if not given.does_consent:
        profile.consent_version = profile.consent_sha256 = profile.consented_by = ""
        profile.consented_at = None
    elif profile.consented_at is None:
        agreement = agreements.current_agreement(now=now)
        profile.consent_version = agreement.version if agreement else ""
        profile.consent_sha256 = agreement.sha256 if agreement else ""
        profile.consented_at, profile.consented_by = now, actor.public_id


def _fields(given: Given) -> dict[str, str | int | bool]:
    country = require_country(given.country)
    is_business = given.status == TaxStatus.BUSINESS
    if not given.name.strip() or not given.address.strip():
        raise InvalidValue("give name and address as they have to stand on an invoice", param="address")
    if not 0 <= given.vat_rate_bps <= rules.MOST_RATE_BPS:
        raise InvalidValue(f"a VAT rate is 0 to {rules.MOST_RATE_BPS // 100} per cent", param="vat_rate")
    return {
        "status": TaxStatus.BUSINESS if is_business else TaxStatus.PRIVATE,
        "is_small_business": is_business and given.is_small_business,
        "name": given.name.strip()[:160],
        "address": given.address.strip()[:400],
        "country": country,
        "tax_id": rules.tax_id(given.tax_id, country=country) if is_business else "",
        "vat_rate_bps": given.vat_rate_bps if is_business and not given.is_small_business else 0,
    }


def _record(profile: TaxProfile, event: str, *, actor: Actor, now: datetime, detail: dict[str, object]) -> None:
    provider: Provider = profile.provider
    audit.record(
        actor=actor,
        event=event,
        subject=provider.public_id,
        now=now,
        organization=provider.organization.public_id,
        detail=detail,
    )
