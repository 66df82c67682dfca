"""What this node claims of an attempt: which bytes went through the tunnel, and when. No text, no counts."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from poolhouse_common.receipts import TunnelDigest

from poolhouse_agent.protocol.frames import RequestHead

Claim = Mapping[str, Any]
Note = Callable[[Claim], None]

ENDED = "end"
FAILED = "fail"
CANCELED = "canceled"
# A gateway that names attempts or nonces otherwise is not one that can be held to a receipt.
_ATTEMPT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/[1-9][0-9]?\Z")
_NONCE = re.compile(r"[0-9a-f]{16,64}\Z")


class Served:
    """One attempt while it is served. `answered`: its answer has begun; what never began needs no receipt."""

    __slots__ = ("_began_at", "_digest", "_head", "answered")

    def __init__(self, head: RequestHead, body: bytes) -> None:
        self.answered = False
        self._head = head
        self._began_at = datetime.now(UTC)
        self._digest = TunnelDigest(head.nonce, body)

    def add(self, piece: bytes) -> None:
        """Take bytes of the answer that go into the tunnel."""
        self._digest.add(piece)

    def claim(self, ending: str) -> Claim | None:
        """Return the claim; None where nothing was answered or the attempt cannot be named."""
        head = self._head
        if not self.answered or not _ATTEMPT.match(head.attempt) or not _NONCE.match(head.nonce):
            return None
        return {
            "attempt": head.attempt,
            "nonce": head.nonce,
            "answer_bytes": self._digest.answer_bytes,
            "digest": self._digest.hex(),
            "ending": ending,
            "began_at": _text(self._began_at),
            "ended_at": _text(datetime.now(UTC)),
        }


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
