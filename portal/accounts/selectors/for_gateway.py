"""API keys as the gateway's snapshot takes them: by bucket, so that a change moves few of many rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from portal.accounts.models import ApiKey, OrganizationState

_BUCKET = 1024
# xmin changes with every write to a row, whoever writes it: no column to forget.
_DIGESTS = f"""
    SELECT key.id / {_BUCKET},
           count(*) || ':' || sum(hashtextextended(key.xmin::text || ':' || organization.xmin::text, key.id))
    FROM accounts_apikey key JOIN accounts_organization organization ON organization.id = key.organization_id
    GROUP BY 1
"""  # noqa: S608  a number of our own


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key with what admission needs of its organization."""

    id: int
    public_id: str
    digest: str
    organization_id: int
    organization: str
    is_organization_active: bool
    node_classes: list[str]
    tools_on_any_class: bool
    monthly_cap_nano: int | None
    expires_at: datetime | None
    is_revoked: bool


def key_digests() -> dict[int, str]:
    """Return a digest of each bucket of keys; it differs whenever one of its rows was written."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGESTS)
        return {int(bucket): digest for bucket, digest in cursor.fetchall()}


def keys_in_bucket(*, bucket: int) -> Iterable[KeyRow]:
    """Return the keys of one bucket."""
    rows = ApiKey.objects.filter(id__gte=bucket * _BUCKET, id__lt=(bucket + 1) * _BUCKET)
    for row in rows.select_related("organization").order_by("id"):
        yield KeyRow(
            id=row.pk,
            public_id=row.public_id,
            digest=row.digest,
            organization_id=row.organization_id,
            organization=row.organization.public_id,
            is_organization_active=row.organization.state == OrganizationState.ACTIVE,
            node_classes=row.node_classes,
            tools_on_any_class=row.tools_on_any_class,
            monthly_cap_nano=row.monthly_cap_nano,
            expires_at=row.expires_at,
            is_revoked=row.revoked_at is not None,
        )
