"""API keys as the gateway's snapshot takes them: by bucket, so that a change moves few of many rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from portal.accounts.models import ApiKey, Organization, OrganizationState, Project, RetiredSecret
from portal.accounts.models.terms import Budgeted, Limited
from portal.accounts.rules.terms import Budget, LimitTerms, stricter

_BUCKET = 1024
# xmin changes with every write to a row, whoever writes it: no column to forget. A retired secret changes with its key.
_DIGESTS = f"""
    SELECT key.id / {_BUCKET},
           count(*) || ':' || sum(hashtextextended(
               key.xmin::text || ':' || organization.xmin::text || ':' || coalesce(project.xmin::text, ''), key.id))
    FROM accounts_apikey key
    JOIN accounts_organization organization ON organization.id = key.organization_id
    LEFT JOIN accounts_project project ON project.id = key.project_id
    GROUP BY 1
"""  # noqa: S608  a number of our own


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """An organization or project: what its keys share."""

    id: int
    public_id: str
    limits: LimitTerms
    budget: Budget


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key with what admission needs of its project and organization."""

    key: ApiKey
    limits: LimitTerms
    budget: Budget
    organization: OwnerRow
    is_organization_active: bool
    zone: str
    project: OwnerRow | None
    retired: tuple[tuple[str, datetime], ...]


def key_digests() -> dict[int, str]:
    """Return a digest of each bucket of keys; it differs whenever one of its rows was written."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGESTS)
        return {int(bucket): digest for bucket, digest in cursor.fetchall()}


def keys_in_bucket(*, bucket: int) -> Iterable[KeyRow]:
    """Return the keys of one bucket."""
    first, after = bucket * _BUCKET, (bucket + 1) * _BUCKET
    retired = _retired(first, after)
    rows = ApiKey.objects.filter(id__gte=first, id__lt=after)
    for row in rows.select_related("organization", "project").order_by("id"):
        yield KeyRow(
            key=row,
            limits=_limits(row),
            budget=_budget(row),
            organization=_organization(row.organization),
            is_organization_active=row.organization.state == OrganizationState.ACTIVE,
            zone=row.organization.time_zone,
            project=_project(row.project) if row.project else None,
            retired=tuple(retired.get(row.pk, ())),
        )


def _retired(first: int, after: int) -> Mapping[int, list[tuple[str, datetime]]]:
    found: dict[int, list[tuple[str, datetime]]] = defaultdict(list)
    rows = RetiredSecret.objects.filter(key_id__gte=first, key_id__lt=after).order_by("pk")
    for key_id, digest, works_until in rows.values_list("key_id", "digest", "works_until"):
        found[key_id].append((digest, works_until))
    return found


def _organization(row: Organization) -> OwnerRow:
    limits = LimitTerms(
        stricter(row.requests_per_minute, row.ceiling_requests_per_minute),
        stricter(row.tokens_per_minute, row.ceiling_tokens_per_minute),
        stricter(row.parallel_requests, row.ceiling_parallel_requests),
    )
    return OwnerRow(row.pk, row.public_id, limits, _budget(row))


def _project(row: Project) -> OwnerRow:
    return OwnerRow(row.pk, row.public_id, _limits(row), _budget(row))


def _limits(row: Limited) -> LimitTerms:
    return LimitTerms(row.requests_per_minute, row.tokens_per_minute, row.parallel_requests)


def _budget(row: Budgeted) -> Budget:
    return Budget(cap_nano=row.budget_cap_nano, period=row.budget_period)
