"""What each open attempt had delivered a moment ago: written each second, so that a crash loses no more than that."""

import time
from dataclasses import dataclass

from portal.gateway.contracts import Attempt, ModelEntry
from portal.gateway.coverage import Cover
from portal.gateway.tokens import TokenCounters
from portal.metering.rules import counting, spool_records
from portal.metering.rules.spool_records import MarkRecord


@dataclass(slots=True)
class Tracked:
    """An open attempt with what was counted of it so far: the prompt once, delivered text piece by piece."""

    attempt: Attempt
    opened_nano: int
    prompt: int | None = None
    completion: int = 0
    is_counted: bool = False
    pieces: int = 0
    seen_bytes: int = 0
    marked_bytes: int = 0
    cover: Cover | None = None

    @property
    def is_due(self) -> bool:
        """Whether something was delivered since the last mark."""
        return self.attempt.is_open and self.attempt.delivered_bytes != self.marked_bytes


async def count_due(tracked: list[Tracked], counters: TokenCounters) -> None:
    """Count what was delivered since the last mark, model by model, in the counting threads."""
    by_model: dict[int, list[Tracked]] = {}
    for row in tracked:
        by_model.setdefault(row.attempt.facts.model.id, []).append(row)
    for rows in by_model.values():
        await _count(rows[0].attempt.facts.model, rows, counters)


async def _count(model: ModelEntry, rows: list[Tracked], counters: TokenCounters) -> None:
    ends = [len(row.attempt.delivered) for row in rows]
    for row in rows:
        row.seen_bytes = row.attempt.delivered_bytes
    texts = ["".join(row.attempt.delivered[row.pieces : end]) for row, end in zip(rows, ends, strict=True)]
    counts = await counters.each(model, texts)
    for position, row in enumerate(rows):
        row.is_counted = counts is not None
        if counts is not None:
            row.pieces = ends[position]
            row.completion += counts[position]
            if row.cover is not None:
                row.cover.learn(row.completion, at_bytes=row.seen_bytes)
    fresh = [row for row in rows if row.prompt is None]
    prompts = await counters.prompts(model, [row.attempt.facts.body for row in fresh]) if fresh else None
    for row, prompt in zip(fresh, prompts or (), strict=False):
        row.prompt = prompt


def encode(row: Tracked) -> tuple[int, bytes]:
    """Return the attempt's mark as the spool stores it."""
    attempt = row.attempt
    row.marked_bytes = row.seen_bytes
    mark = MarkRecord(
        marked_at=time.time(),
        first_token_at=attempt.first_token_at,
        delivered_bytes=row.seen_bytes,
        claimed_prompt=counting.sound(attempt.claim.prompt),
        claimed_cached=counting.sound(attempt.claim.cached),
        claimed_completion=counting.sound(attempt.claim.completion),
        counted_prompt=row.prompt,
        counted_completion=row.completion if row.is_counted else None,
        draws=attempt.hold.draws() if attempt.hold.nano != row.opened_nano else None,
    )
    return attempt.spool_row, spool_records.encode_mark(mark)
