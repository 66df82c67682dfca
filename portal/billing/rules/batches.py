"""How usage records are gathered into ledger transactions: one for each set of payers, provider and UTC month.

The month is that of delivery.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from uuid import UUID

from portal.billing.rules.parties import Split
from portal.billing.rules.periods import month_of

RecordKey = tuple[date, UUID, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One charged usage record, ready to be booked. `payers` are (credit account, nano) in the order they are spent."""

    key: RecordKey
    payers: tuple[tuple[int, int], ...]
    organization_id: int
    provider_id: int
    charge_nano: int
    split: Split
    closed_at: datetime


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines that one ledger transaction books."""

    lines: tuple[Line, ...]

    @property
    def payers(self) -> list[tuple[int, int]]:
        """The credit accounts that pay, each with its part of the charge."""
        columns = zip(*(line.payers for line in self.lines), strict=True)
        return [(column[0][0], sum(nano for _, nano in column)) for column in columns]

    @property
    def organization_id(self) -> int:
        """The customer."""
        return self.lines[0].organization_id

    @property
    def provider_id(self) -> int:
        """The provider that served."""
        return self.lines[0].provider_id

    @property
    def charge_nano(self) -> int:
        """All that the customer pays."""
        return sum(line.charge_nano for line in self.lines)

    @property
    def provider_nano(self) -> int:
        """The part of it that the provider earns."""
        return sum(line.split.provider_nano for line in self.lines)

    @property
    def delivered_at(self) -> datetime:
        """When the last of it was delivered."""
        return max(line.closed_at for line in self.lines)

    @property
    def digest(self) -> str:
        """A name made of exactly these records, so that the same records are never booked twice."""
        names = [
            f"{day.isoformat()}/{request}/{attempt}" for day, request, attempt in (line.key for line in self.lines)
        ]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()


def gather(lines: Iterable[Line]) -> list[Batch]:
    """Return the batches in a fixed order; every line is in exactly one."""
    ordered = sorted(lines, key=lambda line: (*_group(line), line.key))
    return [Batch(tuple(members)) for _, members in groupby(ordered, key=_group)]


def _group(line: Line) -> tuple[tuple[int, ...], int, datetime]:
    return tuple(payer for payer, _ in line.payers), line.provider_id, month_of(line.closed_at).starts_at
