"""Keys, projects and organizations as the gateway's snapshot takes them: by bucket, so that a change moves few rows."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from portal.accounts.models import ApiKey, Organization, OrganizationState, Project, RetiredSecret
from portal.accounts.rules.terms import NO_BUDGET, NO_LIMITS, Budget, LimitTerms, stricter

_BUCKET = 1024
# xmin changes with every write to a row, whoever writes it: no column to forget. A retired secret changes with its key.
_DIGESTS = f"SELECT id / {_BUCKET}, count(*) || ':' || sum(hashtextextended(xmin::text, id)) FROM %s GROUP BY 1"  # noqa: S608  a number of our own
_LIMITS = ("requests_per_minute", "tokens_per_minute", "parallel_requests")
_BUDGET = ("budget_cap_nano", "budget_period")
_KEY = (
    "pk",
    "public_id",
    "digest",
    "organization_id",
    "project_id",
    "node_classes",
    "allows_tools",
    "tools_on_any_class",
    "is_private_only",
    "allowed_models",
    "networks",
    "countries",
    "expires_at",
    "revoked_at",
)


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """An organization or project: what its keys share. Zone, activity and stop are the organization's."""

    id: int
    public_id: str
    limits: LimitTerms
    budget: Budget
    zone: str = ""
    is_active: bool = True
    stopped_for: str = ""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key; `retired` are the digests of its earlier secrets and until when each works."""

    id: int
    public_id: str
    digest: str
    organization_id: int
    project_id: int | None
    node_classes: list[str]
    allows_tools: bool
    tools_on_any_class: bool
    is_private_only: bool
    allowed_models: list[str] | None
    networks: list[str]
    countries: list[str] | None
    expires_at: datetime | None
    revoked_at: datetime | None
    limits: LimitTerms
    budget: Budget
    retired: tuple[tuple[str, datetime], ...]


def key_digests() -> dict[int, str]:
    """Return a digest of each bucket of keys; it differs whenever one of its rows was written."""
    return _digests("accounts_apikey")


def organization_digests() -> dict[int, str]:
    """Return a digest of each bucket of organizations."""
    return _digests("accounts_organization")


def project_digests() -> dict[int, str]:
    """Return a digest of each bucket of projects."""
    return _digests("accounts_project")


def organizations_in_bucket(*, bucket: int) -> Iterable[OwnerRow]:
    """Return the organizations of one bucket, with the stricter of their own limits and the operator's ceilings."""
    ceilings = tuple(f"ceiling_{name}" for name in _LIMITS)
    rows = _of_bucket(Organization.objects.all(), bucket)
    for pk, public_id, zone, state, stopped_for, *terms in rows.values_list(
        "pk", "public_id", "time_zone", "state", "stopped_for", *_LIMITS, *ceilings, *_BUDGET
    ):
        limits = [stricter(own, ceiling) for own, ceiling in zip(terms[:3], terms[3:6], strict=True)]
        is_active = state == OrganizationState.ACTIVE
        yield OwnerRow(pk, public_id, _limits(limits), _budget(*terms[6:]), zone, is_active, stopped_for)


def projects_in_bucket(*, bucket: int) -> Iterable[OwnerRow]:
    """Return the projects of one bucket."""
    rows = _of_bucket(Project.objects.all(), bucket)
    for pk, public_id, *terms in rows.values_list("pk", "public_id", *_LIMITS, *_BUDGET):
        yield OwnerRow(pk, public_id, _limits(terms[:3]), _budget(*terms[3:]))


def keys_in_bucket(*, bucket: int) -> Iterable[KeyRow]:
    """Return the keys of one bucket."""
    yield from _keys(_of_bucket(ApiKey.objects.all(), bucket))


def keys_of(*, organization_ids: Collection[int], project_ids: Collection[int]) -> Iterable[KeyRow]:
    """Return the keys of these organizations and projects."""
    yield from _keys(ApiKey.objects.filter(Q(organization__in=organization_ids) | Q(project__in=project_ids)))


def bucket_of(key_id: int) -> int:
    """Return the bucket that the key is in."""
    return key_id // _BUCKET


def _digests(table: str) -> dict[int, str]:
    with connection.cursor() as cursor:
        cursor.execute(_DIGESTS % table)
        return {int(bucket): digest for bucket, digest in cursor.fetchall()}


def _of_bucket(rows: QuerySet[Any], bucket: int) -> QuerySet[Any]:
    return rows.filter(pk__gte=bucket * _BUCKET, pk__lt=(bucket + 1) * _BUCKET).order_by("pk")


def _keys(rows: QuerySet[ApiKey]) -> Iterable[KeyRow]:
    retired = _retired(rows)
    count = len(_KEY)
    for found in rows.values_list(*_KEY, *_LIMITS, *_BUDGET):
        values: list[Any] = list(found)
        limits, budget = _limits(values[count : count + 3]), _budget(*values[count + 3 :])
        yield KeyRow(*(*values[:count], limits, budget, tuple(retired.get(values[0], ()))))


def _retired(rows: QuerySet[ApiKey]) -> Mapping[int, list[tuple[str, datetime]]]:
    found: dict[int, list[tuple[str, datetime]]] = defaultdict(list)
    secrets = RetiredSecret.objects.filter(key__in=rows.order_by().values("pk")).order_by("pk")
    for key_id, digest, works_until in secrets.values_list("key_id", "digest", "works_until"):
        found[key_id].append((digest, works_until))
    return found


def _limits(values: Collection[int | None]) -> LimitTerms:
    return NO_LIMITS if all(value is None for value in values) else LimitTerms(*values)


def _budget(cap_nano: int | None, period: str) -> Budget:
    return NO_BUDGET if cap_nano is None else Budget(cap_nano=cap_nano, period=period)
