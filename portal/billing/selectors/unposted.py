"""Usage that is not booked yet."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from portal.accounts.models import Organization
from portal.billing.models import LedgerAccount, UnpostableUsage, UsagePosting
from portal.billing.rules.accounts import Kind
from portal.billing.rules.batches import RecordKey
from portal.metering.models import Reader, UsageQueue, UsageRecord
from portal.providers.models import Provider


def queue(*, now: datetime) -> QuerySet[UsageQueue]:
    """Return what waits to be booked, oldest first, without what could not be booked and is not to be tried yet."""
    resting = UnpostableUsage.objects.filter(
        opened_on=OuterRef("opened_on"),
        request_id=OuterRef("request_id"),
        attempt=OuterRef("attempt"),
        retry_at__gt=now,
    )
    return UsageQueue.objects.filter(~Exists(resting), reader=Reader.BILLING).order_by("id")


def records(keys: Iterable[RecordKey]) -> list[UsageRecord]:
    """Return the usage records of these keys."""
    wanted = set(keys)
    rows = UsageRecord.objects.defer("routing").filter(
        opened_on__in={key[0] for key in wanted}, request_id__in={key[1] for key in wanted}
    )
    return [row for row in rows if key_of(row) in wanted]


def key_of(row: UsageRecord | UsageQueue | UsagePosting) -> RecordKey:
    """Return the three columns that name a usage record."""
    return row.opened_on, row.request_id, row.attempt


def posted(keys: Iterable[RecordKey]) -> set[RecordKey]:
    """Return those of the keys that are booked already."""
    wanted = set(keys)
    rows = UsagePosting.objects.filter(
        opened_on__in={key[0] for key in wanted}, request_id__in={key[1] for key in wanted}
    )
    return {key_of(row) for row in rows} & wanted


def set_aside(keys: Iterable[RecordKey]) -> QuerySet[UnpostableUsage]:
    """Return what is noted of these keys as not bookable."""
    wanted = set(keys)
    rows = UnpostableUsage.objects.filter(opened_on__in={key[0] for key in wanted})
    return rows.filter(request_id__in={key[1] for key in wanted}, attempt__in={key[2] for key in wanted})


def providers(ids: Iterable[int]) -> dict[int, Provider]:
    """Return providers by id."""
    return Provider.objects.in_bulk(set(ids))


def organizations(ids: Iterable[int]) -> dict[int, str]:
    """Return the public ids of organizations by id."""
    return dict(Organization.objects.filter(pk__in=set(ids)).values_list("pk", "public_id"))


def promotional(account_ids: Iterable[int]) -> set[int]:
    """Return those of the accounts that hold promotional credit."""
    rows = LedgerAccount.objects.filter(pk__in=set(account_ids), kind=Kind.PROMO_CREDIT)
    return set(rows.values_list("pk", flat=True))
