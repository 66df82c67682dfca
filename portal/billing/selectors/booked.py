"""How exported usage was booked: when, and what of it was earned. Read some thousand records at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from portal.billing.models import UsagePosting
from portal.billing.rules.batches import RecordKey
from portal.billing.selectors import unposted
from portal.metering.models import UsageRecord

_CHUNK = 2_000


@dataclass(frozen=True, slots=True)
class Booking:
    """The booking of one record: it belongs to the period of `booked_at`; `withheld` says why nothing was earned."""

    booked_at: datetime
    earned_nano: int
    withheld: str


class Bookings:
    """Looks up the bookings of records that pass through `each`; only those passing now are kept in memory."""

    def __init__(self) -> None:
        self._known: dict[RecordKey, Booking] = {}

    def each(self, rows: Iterable[UsageRecord]) -> Iterator[UsageRecord]:
        """Yield the records in their order, with their bookings at hand."""
        left = iter(rows)
        while chunk := list(islice(left, _CHUNK)):
            self._known = _bookings(chunk)
            yield from chunk

    def of(self, source: Callable[..., Iterable[UsageRecord]]) -> Callable[..., Iterator[UsageRecord]]:
        """Return `source` with the bookings of what it returns at hand."""
        return lambda **asked: self.each(source(**asked))

    def at(self, row: UsageRecord) -> datetime | None:
        """Return when the record takes effect in the books; None where it is not booked (yet)."""
        found = self._known.get(unposted.key_of(row))
        return found.booked_at if found else None

    def earned_nano(self, row: UsageRecord) -> int:
        """Return what its provider earned by it."""
        found = self._known.get(unposted.key_of(row))
        return found.earned_nano if found else 0

    def withheld(self, row: UsageRecord) -> str:
        """Return why its provider earned less than the share."""
        found = self._known.get(unposted.key_of(row))
        return found.withheld if found else ""


def _bookings(rows: Iterable[UsageRecord]) -> dict[RecordKey, Booking]:
    wanted = {unposted.key_of(row) for row in rows}
    postings = UsagePosting.objects.select_related("tx").filter(
        opened_on__in={key[0] for key in wanted}, request_id__in={key[1] for key in wanted}
    )
    return {
        unposted.key_of(row): Booking(row.tx.effective_at, row.provider_nano, row.withheld)
        for row in postings.only("opened_on", "request_id", "attempt", "provider_nano", "withheld", "tx__effective_at")
    }
