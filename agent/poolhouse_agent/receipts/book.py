"""The book of receipts: claims that wait for the portal, and receipts in files of bounded size, the oldest given up.

Claims reach the disk every few seconds (half a minute while the portal is away), not one by one: a power cut costs the
receipts of that time, never pay.
"""

import json
import logging
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.receipts.claims import Claim

log = logging.getLogger(__name__)

MAX_WAITING: Final = 20_000
SEGMENT_BYTES: Final = 16 << 20
_PENDING: Final = "pending.jsonl"
_PORTAL_KEY: Final = "portal.key"
_SEGMENTS: Final = "receipts-*.jsonl"


class Book:
    """The receipts of one node below one folder of at most `most_bytes`. One process writes it, others may read."""

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self.folder = folder
        self.dropped = 0
        self._most_bytes = max(most_bytes, 2 * SEGMENT_BYTES)
        self._waiting: OrderedDict[str, Claim] = OrderedDict()
        self._has_changed = False

    def open(self) -> None:
        """Make the folder and read what waits. Raises ConfigError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for claim in _lines(self.folder / _PENDING):
                self._waiting[str(claim.get("attempt"))] = claim
        except OSError as error:
            raise ConfigError("state_unwritable", f"{self.folder}: {error.strerror}") from None

    @property
    def waiting(self) -> int:
        """How many claims wait for the portal."""
        return len(self._waiting)

    def note(self, claim: Claim) -> None:
        """Take a claim; beyond MAX_WAITING the oldest is given up."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._waiting[claim["attempt"]] = claim
        self._has_changed = True

    def oldest(self, *, limit: int) -> list[Claim]:
        """Return the claims that have waited longest since they were last asked for."""
        return [claim for _, claim in zip(range(limit), self._waiting.values(), strict=False)]

    def postpone(self, attempts: Iterable[str]) -> None:
        """Put claims at the end of the queue: the portal does not know their attempts yet."""
        for attempt in attempts:
            if attempt in self._waiting:
                self._waiting.move_to_end(attempt)

    def settle(self, *, receipts: Iterable[Mapping[str, Any]], refused: Iterable[str] = ()) -> None:
        """Store receipts and forget their claims, and those that the portal refused. Raises ConfigError."""
        kept = list(receipts)
        if kept:
            self._append(kept)
        for attempt in [*(str(one["claim"]["attempt"]) for one in kept), *refused]:
            self._has_changed = self._waiting.pop(attempt, None) is not None or self._has_changed

    def flush(self) -> None:
        """Bring the waiting claims to the disk where they changed. Raises ConfigError."""
        if not self._has_changed:
            return
        text = "".join(json.dumps(claim, separators=(",", ":")) + "\n" for claim in self._waiting.values())
        self._replace(_PENDING, text)
        self._has_changed = False

    def portal_key(self) -> str:
        """Return the portal's key that was seen first, or an empty text."""
        try:
            return (self.folder / _PORTAL_KEY).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("state_unreadable", f"{self.folder / _PORTAL_KEY}: {error}") from None

    def pin(self, portal_key: str) -> None:
        """Keep the portal's key. Raises ConfigError."""
        self._replace(_PORTAL_KEY, portal_key + "\n")

    def stored(self) -> Iterator[Mapping[str, Any]]:
        """Yield all receipts, the oldest first."""
        for segment in self._segments():
            yield from _lines(segment)

    def _segments(self) -> list[Path]:
        return sorted(self.folder.glob(_SEGMENTS))

    def _append(self, receipts: list[Mapping[str, Any]]) -> None:
        segments = self._segments()
        newest = segments[-1] if segments else self.folder / "receipts-00000001.jsonl"
        try:
            if newest.exists() and newest.stat().st_size >= SEGMENT_BYTES:
                newest = self.folder / f"receipts-{int(newest.stem[-8:]) + 1:08d}.jsonl"
            with newest.open("a", encoding="utf-8") as output:
                output.writelines(json.dumps(one, separators=(",", ":")) + "\n" for one in receipts)
            newest.chmod(0o600)
            self._shorten()
        except OSError as error:
            raise ConfigError("state_unwritable", f"{newest}: {error.strerror}") from None

    def _shorten(self) -> None:
        segments = self._segments()
        while len(segments) > 1 and sum(one.stat().st_size for one in segments) > self._most_bytes:
            oldest = segments.pop(0)
            oldest.unlink()
            log.warning("receipts.oldest_removed", extra={"file": oldest.name, "most_bytes": self._most_bytes})

    def _replace(self, name: str, text: str) -> None:
        temporary = self.folder / f".{name}"
        try:
            with temporary.open("w", encoding="utf-8") as output:
                temporary.chmod(0o600)
                output.write(text)
                output.flush()
                os.fsync(output.fileno())
            temporary.replace(self.folder / name)
        except OSError as error:
            raise ConfigError("state_unwritable", f"{self.folder / name}: {error.strerror}") from None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the file's objects; a last line that a crash cut short is left out."""
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                try:
                    value = json.loads(line)
                except ValueError:
                    log.warning("receipts.line_damaged", extra={"file": path.name})
                    continue
                if isinstance(value, dict):
                    yield value
    except FileNotFoundError:
        return
