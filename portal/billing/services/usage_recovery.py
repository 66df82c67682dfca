"""Takes usage back that a restored backup does not know, from receipts that this pool itself has signed.

A receipt names its customer in a part that only the pool's own key opens. What is stored already stays as it is; what
cannot be booked is told by a code and left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Manager
from poolhouse_common import receipts as wire

from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.models import CreditLease, LeaseState, PriceVersion, Recovery
from portal.billing.rules import receipts as rules
from portal.billing.rules.accounts import Kind
from portal.billing.rules.receipt_keys import ReceiptKey
from portal.billing.selectors import balances
from portal.billing.services import ledger, receipts
from portal.metering.errors import UsageConflict, UsageTooOld
from portal.metering.models import UsageRecord
from portal.metering.rules.usage_rows import UsageRow
from portal.metering.services import ingest, spools
from portal.nodes.models import Node
from portal.providers.models import Provider

_BATCH = 500
_MOMENTS = ("opened_at", "first_token_at", "closed_at")
_NAMED: Final[tuple[tuple[str, str, Manager[Any]], ...]] = (
    ("organization_missing", "organization_id", Organization.objects),
    ("provider_missing", "provider_id", Provider.objects),
    ("node_missing", "node_id", Node.objects),
    ("price_missing", "price_version_id", PriceVersion.objects),
)


@dataclass(slots=True)
class Taken:
    """What came of the receipts: stored anew, known already, and left out by code."""

    new: int = 0
    known: int = 0
    charge_nano: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def take_over(
    *, recovery: Recovery, found: Iterable[Mapping[str, Any]], actor: Actor, now: datetime, is_dry: bool = False
) -> Taken:
    """Store the usage of every sound receipt that is not stored yet. Raises ReceiptsOff."""
    key, taken, left = receipts.signing_key(), Taken(), iter(found)
    purse = None if is_dry else _Purse(recovery, now)
    while batch := list(islice(left, _BATCH)):
        columns = list(_opened(batch, key, taken))
        fresh = _unknown(columns, taken)
        sound = _bookable(fresh, taken)
        taken.charge_nano += sum(one["charge_nano"] for one in sound)
        if purse is None:
            taken.new += len(sound)
        else:
            _store(purse, sound, taken, actor, now)
    if purse is not None:
        spools.mark_drained(public_id=purse.spool.public_id, now=now)  # nobody is to wait for more of it
    return taken


def _opened(batch: Iterable[Mapping[str, Any]], key: ReceiptKey, taken: Taken) -> Iterator[dict[str, Any]]:
    """Yield the sealed columns of receipts that this pool has signed."""
    for receipt in batch:
        columns = _columns(receipt, key)
        if columns is None:
            taken.left_out["receipt_unsound"] += 1
        else:
            yield columns


def _columns(receipt: Mapping[str, Any], key: ReceiptKey) -> dict[str, Any] | None:
    try:
        message, attempt = wire.countersign_message(receipt), str(receipt["claim"]["attempt"])
        if not key.is_own(message=message, signature=str(receipt["portal_signature"])):
            return None
        plain = key.unseal(str(receipt["sealed"]), attempt=attempt)
    except (KeyError, TypeError, ValueError):
        return None
    return rules.unpacked(plain) if plain is not None else None


def _unknown(columns: list[dict[str, Any]], taken: Taken) -> list[dict[str, Any]]:
    requests = {UUID(one["request_id"]) for one in columns}
    days = {date.fromisoformat(one["opened_on"]) for one in columns}
    rows = UsageRecord.objects.filter(opened_on__in=days, request_id__in=requests)
    known = {(str(request_id), attempt) for request_id, attempt in rows.values_list("request_id", "attempt")}
    fresh = {}
    for one in columns:
        name = (one["request_id"], one["attempt"])
        if name not in known:
            fresh[name] = one
    taken.known += len(columns) - len(fresh)
    return list(fresh.values())


def _bookable(fresh: list[dict[str, Any]], taken: Taken) -> list[dict[str, Any]]:
    """Return the records of which everything that they name is here; the others are noted by code."""
    here = [(code, name, _there(rows, {one[name] for one in fresh})) for code, name, rows in _NAMED]
    sound = []
    for one in fresh:
        missing = next((code for code, name, ids in here if one[name] not in ids), "")
        if missing:
            taken.left_out[missing] += 1
        else:
            sound.append(one)
    return sound


def _there(rows: Manager[Any], ids: set[int]) -> set[int]:
    return set(rows.filter(pk__in=ids).values_list("pk", flat=True))


def _store(purse: "_Purse", sound: list[dict[str, Any]], taken: Taken, actor: Actor, now: datetime) -> None:
    for one in sound:
        try:
            with transaction.atomic():
                row = _row(one, purse)
                ingest.ingest(spool=purse.spool.public_id, rows=[row], now=now)
                audit.record(
                    actor=actor,
                    event="usage.recovered",
                    subject=f"{row.request_id}/{row.attempt}",
                    now=now,
                    detail={"recovery": purse.recovery.public_id, "charge_nano": str(row.charge_nano)},
                )
            taken.new += 1
        except (UsageConflict, UsageTooOld) as error:
            taken.left_out[error.code] += 1


def _row(one: Mapping[str, Any], purse: "_Purse") -> UsageRow:
    columns = dict(one)
    columns["opened_on"] = date.fromisoformat(columns["opened_on"])
    columns["request_id"] = UUID(columns["request_id"])
    for name in _MOMENTS:
        columns[name] = datetime.fromisoformat(columns[name]) if columns[name] else None
    if not purse.has_leases(columns):
        columns["lease_ids"], columns["lease_charges"] = purse.payers(columns)
        columns["budget_lease_ids"], columns["budget_charges"] = [], []
    return UsageRow(**columns, routing=None, client_request_id="")


class _Purse:
    """Who pays for usage whose leases are lost: promotional credit first, as a lease would have had it.

    One for all receipts of a recovery: what it has given out is booked only after the last of them.
    """

    def __init__(self, recovery: Recovery, now: datetime) -> None:
        self.recovery = recovery
        self.spool = spools.register(
            public_id=f"spool_{recovery.public_id}"[:40], process="recovery", host="receipts", now=now
        )
        self._now = now
        self._promo: dict[int, int] = {}

    def has_leases(self, columns: Mapping[str, Any]) -> bool:
        """Tell whether the leases that the record names are those that it was served from."""
        rows = CreditLease.objects.filter(pk__in=columns["lease_ids"], created_at__lte=columns["opened_at"])
        is_same = rows.filter(organization_id=columns["organization_id"]).count() == len(set(columns["lease_ids"]))
        return is_same and not columns["budget_lease_ids"]

    def payers(self, columns: Mapping[str, Any]) -> tuple[list[int], list[int]]:
        """Return leases that stand for the lost ones, and what each pays of the charge."""
        organization_id, charge = columns["organization_id"], columns["charge_nano"]
        promo = min(charge, self._promo_left(organization_id))
        self._promo[organization_id] -= promo
        parts = [(Kind.PROMO_CREDIT, promo)] if promo else []
        parts.append((Kind.CUSTOMER_CREDIT, charge - promo))
        return [self._lease(organization_id, kind).pk for kind, _ in parts], [nano for _, nano in parts]

    def _promo_left(self, organization_id: int) -> int:
        if organization_id not in self._promo:
            owner = Organization.objects.get(pk=organization_id).public_id
            account = ledger.account(Kind.PROMO_CREDIT, owner, currency=settings.CURRENCY)
            self._promo[organization_id] = max(0, balances.free_of(account))
        return self._promo[organization_id]

    def _lease(self, organization_id: int, kind: Kind) -> CreditLease:
        """Return a lease that grants nothing: what it is charged is paid by what is free on the account, else owed."""
        organization = Organization.objects.get(pk=organization_id)
        account = ledger.account(kind, organization.public_id, currency=settings.CURRENCY)
        row, _ = CreditLease.objects.get_or_create(
            organization=organization,
            account=account,
            spool=self.spool,
            defaults={
                "granted": 0,
                "state": LeaseState.CLOSED,
                "created_at": self._now,
                "expires_at": self._now,
                "closed_at": self._now,
            },
        )
        return row
