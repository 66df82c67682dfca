"""Price versions as they stand: without those that were canceled before they began, each with its end."""

from datetime import datetime

from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Least

from portal.billing.models import PriceVersion

PUBLIC = Q(provider=None, organization=None)


def standing() -> QuerySet[PriceVersion]:
    """Return the versions that hold at some time, annotated with `until`: None where they have no end."""
    rows = PriceVersion.objects.filter(Q(end=None) | Q(end__at__gt=F("effective_from")))
    return rows.annotate(until=_END)


def price_version(*, price_version_id: int) -> PriceVersion | None:
    """Return the version, or None where the id names none."""
    return PriceVersion.objects.filter(pk=price_version_id).first()


def versions(ids: set[int]) -> dict[int, PriceVersion]:
    """Return these versions by id."""
    return PriceVersion.objects.in_bulk(ids)


def labels(ids: set[int]) -> dict[int, str]:
    """Return by id how these versions are named."""
    return {pk: label_of(version) for pk, version in versions(ids).items()}


def scope_of(version: PriceVersion) -> str:
    """Return `public`, `private` (a provider's, on private nodes) or `own` (agreed with one organization)."""
    if version.provider_id is not None:
        return "private"
    return "public" if version.organization_id is None else "own"


def label_of(version: PriceVersion) -> str:
    """Return how a version is named to whoever pays it, such as `v3` or `own v1`."""
    scope = scope_of(version)
    return f"v{version.version}" if scope == "public" else f"{scope} v{version.version}"


def until_of(version: PriceVersion) -> datetime | None:
    """Return the end of a version of `standing`."""
    found: datetime | None = getattr(version, "until", version.effective_until)
    return found


def is_open(version: PriceVersion, *, at: datetime) -> bool:
    """Tell whether a version of `standing` has not ended by `at`."""
    until = until_of(version)
    return until is None or until > at


# LEAST leaves out what is null: the earlier of both ends, or the one there is.
_END = Case(
    When(end=None, then=F("effective_until")),
    When(effective_until=None, then=F("end__at")),
    default=Least("effective_until", "end__at"),
)
