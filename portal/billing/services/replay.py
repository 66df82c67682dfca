"""What a dead process left behind: its spool is settled from its last marks, shipped, and its leases returned.

Safe to run by several at once and again after a crash at any point: the lock file lets one in, the spool lets each
attempt be closed once, the database takes each record once.
"""

from dataclasses import dataclass
from datetime import datetime

from portal.billing.rules import settling
from portal.billing.rules.settling import Agreed, Observed
from portal.billing.services import budgets, leases
from portal.metering.rules import draws, outcomes, spool_records
from portal.metering.rules.counting import Source
from portal.metering.rules.draws import Draws
from portal.metering.rules.spool_records import MarkRecord, OpenRecord
from portal.metering.services import shipping, spool_files, spools
from portal.metering.services.spool_files import SpoolFile, SpoolPath, UnclosedAttempt

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was found in a spool: attempts that had to be settled, and the records it held in all."""

    spool_id: str
    settled: int
    records: int


def replay(*, path: SpoolPath, now: datetime) -> Replayed | None:
    """Settle, ship and remove the spool; None where its process lives or somebody else is at it.

    Raises SpoolUnavailable for a file that cannot be read, SpoolClosed for one that was abandoned.
    """
    with spool_files.locked(path) as is_ours:
        if not is_ours or not path.database.exists():
            return None
        if SpoolFile.is_blank(path):
            path.remove()
            return Replayed(path.spool_id, settled=0, records=0)
        file = SpoolFile.load(path)
        try:
            spools.register(public_id=file.spool_id, process=file.process, host=file.host, now=now)
            replayed = Replayed(file.spool_id, settled=_settle(file), records=drain(file=file, now=now))
        finally:
            file.shut()
        retire(spool_id=replayed.spool_id, now=now)
        path.remove()
    return replayed


def drain(*, file: SpoolFile, now: datetime) -> int:
    """Ship all closed records of the file and return how many there were."""
    reader = file.reader()
    seq = count = 0
    try:
        while batch := reader.closed_after(seq, limit=_BATCH):
            shipping.ship(spool_id=file.spool_id, batch=batch, now=now)
            seq = batch[-1].seq
            count += len(batch)
    finally:
        reader.shut()
    return count


def retire(*, spool_id: str, now: datetime) -> None:
    """Note that the spool's last record is in and return what its leases have left. Raises SpoolUnknown."""
    spool = spools.mark_drained(public_id=spool_id, now=now)
    leases.LIFE.finish_spool(spool_id=spool.pk, now=now)
    budgets.LIFE.finish_spool(spool_id=spool.pk, now=now)


def _settle(file: SpoolFile) -> int:
    unclosed = file.unclosed()
    for attempt in unclosed:
        file.close(attempt.row, _close(attempt))
    return len(unclosed)


def _close(attempt: UnclosedAttempt) -> bytes:
    record = spool_records.decode_open(attempt.opened)
    mark = spool_records.decode_mark(attempt.marked) if attempt.marked else _nothing_seen(record)
    observed = Observed(
        claimed_prompt=mark.claimed_prompt,
        claimed_cached=mark.claimed_cached,
        claimed_completion=mark.claimed_completion,
        counted_prompt=mark.counted_prompt,
        counted_completion=mark.counted_completion,
        end_tokens=0,
        delivered_bytes=mark.delivered_bytes,
    )
    held = mark.draws or record.draws
    bill = settling.settle(
        outcome=outcomes.PLATFORM_CRASH, agreed=_agreed(record, held), observed=observed, source=Source.MARK
    )
    return spool_records.encode_close(
        {
            **settling.columns(bill=bill, observed=observed),
            **draws.columns(charge_nano=bill.charge_nano, draws=held),
            "outcome": outcomes.PLATFORM_CRASH,
            "error_code": "gateway_died",
            "first_token_at": mark.first_token_at,
            "closed_at": mark.marked_at,
        }
    )


def _agreed(record: OpenRecord, held: Draws) -> Agreed:
    return Agreed(
        price=record.price,
        share_bps=record.row["share_bps"],
        hold_nano=held.nano,
        prompt_bound=record.prompt_bound,
        output_bound=record.output_bound,
        has_tolerance=record.has_tolerance,
    )


def _nothing_seen(record: OpenRecord) -> MarkRecord:
    return MarkRecord(record.opened_at, None, 0, None, None, None, None, None)
