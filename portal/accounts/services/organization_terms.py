"""What holds over all keys of an organization: limits and budget, the operator's ceilings, alerts, time zone."""

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import Organization
from portal.accounts.rules import terms
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.integrations import bus


@dataclass(frozen=True, slots=True)
class OrganizationTerms:
    """What an organization sets for all its keys together."""

    limits: LimitTerms
    budget: Budget


@dataclass(frozen=True, slots=True)
class Alerts:
    """Of which unusual use of a key the owners hear."""

    new_network: bool
    new_country: bool
    spend_spike: bool


def change_terms(*, organization: Organization, wanted: OrganizationTerms, actor: Actor, now: datetime) -> Organization:
    """Set the organization's own limits and budget. Raises InvalidValue (naming the field), OrganizationSuspended."""
    terms.require_limits(wanted.limits)
    terms.require_budget(wanted.budget)
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        before = terms_of(row)
        row.budget_cap_nano, row.budget_period = wanted.budget.cap_nano, wanted.budget.period
        for field, value in asdict(wanted.limits).items():
            setattr(row, field, value)
        row.save()
        detail: dict[str, object] = {"from": asdict(before), "to": asdict(wanted)}
        _record(row, "organization.limits_changed", actor=actor, detail=detail, now=now)
    return row


def set_ceilings(*, public_id: str, ceilings: LimitTerms, actor: Actor, now: datetime) -> Organization:
    """Set what the operator lets the organization do at most. Raises NotFound, InvalidValue."""
    terms.require_limits(ceilings)
    with transaction.atomic():
        row = locks.organization_by_public_id(public_id=public_id)
        before = ceilings_of(row)
        for field, value in asdict(ceilings).items():
            setattr(row, f"ceiling_{field}", value)
        row.save()
        detail: dict[str, object] = {"from": asdict(before), "to": asdict(ceilings)}
        _record(row, "organization.ceilings_set", actor=actor, detail=detail, now=now)
    return row


def set_alerts(*, organization: Organization, alerts: Alerts, actor: Actor, now: datetime) -> Organization:
    """Choose of what the owners hear. Raises OrganizationSuspended."""
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        for field, value in asdict(alerts).items():
            setattr(row, f"alerts_{field}", value)
        row.save()
        _record(row, "organization.alerts_set", actor=actor, detail=asdict(alerts), now=now)
    return row


def set_time_zone(*, organization: Organization, time_zone: str, actor: Actor, now: datetime) -> Organization:
    """Choose the zone in which days, weeks and months of budgets begin. Raises InvalidValue, OrganizationSuspended."""
    zone = terms.require_zone(time_zone)
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        before, row.time_zone = row.time_zone, zone
        row.save(update_fields=["time_zone"])
        detail: dict[str, object] = {"from": before, "to": zone}
        _record(row, "organization.time_zone_changed", actor=actor, detail=detail, now=now)
    return row


def terms_of(row: Organization) -> OrganizationTerms:
    """Return what the organization has set."""
    return OrganizationTerms(
        limits=LimitTerms(row.requests_per_minute, row.tokens_per_minute, row.parallel_requests),
        budget=Budget(cap_nano=row.budget_cap_nano, period=row.budget_period),
    )


def ceilings_of(row: Organization) -> LimitTerms:
    """Return what the operator has set."""
    return LimitTerms(row.ceiling_requests_per_minute, row.ceiling_tokens_per_minute, row.ceiling_parallel_requests)


def _record(row: Organization, event: str, *, actor: Actor, detail: dict[str, object], now: datetime) -> None:
    audit.record(actor=actor, event=event, subject=row.public_id, organization=row.public_id, detail=detail, now=now)
    bus.announce("organizations", row.public_id)
