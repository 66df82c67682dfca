"""Which prices are to be told, and whom they concern."""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import F

from portal.accounts.models import Organization
from portal.billing.models import PriceNotice, PriceVersion, SpendDay
from portal.billing.selectors.price_versions import PUBLIC, is_open, standing

_USED_WITHIN: Final = timedelta(days=30)
_MOMENT: Final = timedelta(microseconds=1)


def coming(*, after: datetime, until: datetime, limit: int = 100) -> list[PriceVersion]:
    """Return the pool's versions that begin to hold between two moments, soonest first."""
    rows = standing().filter(provider=None, effective_from__gt=after, effective_from__lte=until)
    return list(rows.select_related("model", "organization").order_by("effective_from", "id")[:limit])


def price_before(version: PriceVersion) -> PriceVersion | None:
    """Return what held before a version for those whom it concerns, None where nothing did."""
    if version.organization_id is not None:
        earlier = standing().filter(
            organization=version.organization_id, model=version.model_id, effective_from__lt=version.effective_from
        )
        last = earlier.order_by("-effective_from", "-id").first()
        if last is not None and is_open(last, at=version.effective_from - _MOMENT):
            return last
    rows = standing().filter(PUBLIC, model=version.model_id).exclude(pk=version.pk)
    return rows.filter(effective_from__lte=version.effective_from).order_by("-effective_from", "-id").first()


def concerned(version: PriceVersion, *, now: datetime) -> list[Organization]:
    """Return the organizations that a version concerns and that were not told yet, by primary key.

    A public price concerns who used the model within 30 days and has no agreement when it begins; an agreement its
    organization.
    """
    told = PriceNotice.objects.filter(version=version).values("organization")
    if version.organization_id is not None:
        return list(Organization.objects.filter(pk=version.organization_id).exclude(pk__in=told))
    used = SpendDay.objects.filter(model_id=version.model_id, day__gte=(now - _USED_WITHIN).date())
    agreed = _agreed(version.model_id, at=version.effective_from)
    rows = Organization.objects.filter(pk__in=used.values("organization_id")).exclude(pk__in=told)
    return list(rows.exclude(pk__in=agreed).order_by("pk"))


def to_withdraw(*, limit: int) -> list[PriceNotice]:
    """Return the notices of versions that were canceled since, oldest first."""
    rows = PriceNotice.objects.filter(withdrawn_at=None, version__end__at__lte=F("version__effective_from"))
    return list(rows.select_related("version__model", "organization").order_by("pk")[:limit])


def _agreed(model_id: int, *, at: datetime) -> set[int]:
    rows = standing().filter(model=model_id, effective_from__lte=at).exclude(organization=None)
    newest = rows.order_by("organization_id", "-effective_from", "-id").distinct("organization_id")
    return {row.organization_id for row in newest if row.organization_id and is_open(row, at=at)}
