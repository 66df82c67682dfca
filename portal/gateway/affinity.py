"""What sends requests of a session, or with a common prefix, to one node, and the ring on which they find it."""

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from portal.gateway.contracts import KeyEntry, NodeEntry
from portal.gateway.errors import invalid

SESSION_HEADER: Final = b"x-session-id"
MAX_SESSION_CHARS: Final = 128
_PREFIX_CHARS: Final = 1_024
_RING: Final = 1 << 64
_PROBES: Final = struct.Struct(">5Q")


def affinity_key(key: KeyEntry, messages: Sequence[dict[str, Any]]) -> bytes | None:
    """Return what requests that share a prefix have in common; None for a prompt too short to be worth caching."""
    head = "\n".join(row["content"] or "" for row in messages[:2])[:_PREFIX_CHARS]
    if len(head) < _PREFIX_CHARS:
        return None
    return _digest(f"{key.organization_id}\n{head}")


def session_key(key: KeyEntry, session: str) -> bytes:
    """Return what the requests of one session of an organization have in common. It never leaves the gateway."""
    return _digest(f"{key.organization_id}\nsession\n{session}")


def session_of(headers: Mapping[bytes, bytes], raw: Mapping[str, Any]) -> str | None:
    """Return the session a customer names: the header `x-session-id`, else OpenAI's `prompt_cache_key` as a hint.

    Raises ApiError for a header that is no session id; a hint that is none is no session.
    """
    named = headers.get(SESSION_HEADER)
    if named is None:
        hint = raw.get("prompt_cache_key")
        return hint if isinstance(hint, str) and _is_session(hint) else None
    session = named.decode("latin-1")
    if not _is_session(session):
        message = f"x-session-id has 1 to {MAX_SESSION_CHARS} printable ASCII characters."
        raise invalid(message, param="x-session-id")
    return session


def _is_session(text: str) -> bool:
    return 0 < len(text) <= MAX_SESSION_CHARS and text.isascii() and text.isprintable()


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class NodeRing:
    """Consistent hashing with several probes: a node that comes or goes moves only the keys that are its own."""

    __slots__ = ("_nodes", "_points")

    def __init__(self, nodes: Sequence[NodeEntry]) -> None:
        placed = sorted((_point(node.id), number) for number, node in enumerate(nodes))
        self._points = [point for point, _ in placed]
        self._nodes = [nodes[number] for _, number in placed]

    def walk(self, affinity: bytes, steps: int) -> Iterator[NodeEntry]:
        """Yield the key's home and then the nodes after it, at most `steps` in all."""
        points = self._points
        count = len(points)
        nearest, home = _RING, 0
        for probe in _PROBES.unpack(hashlib.blake2b(affinity, digest_size=_PROBES.size).digest()):
            place = bisect_left(points, probe) % count
            distance = (points[place] - probe) % _RING
            if distance < nearest:
                nearest, home = distance, place
        for step in range(min(steps, count)):
            yield self._nodes[(home + step) % count]


@lru_cache(maxsize=65_536)
def _point(node_id: int) -> int:
    return int.from_bytes(hashlib.blake2b(b"%d" % node_id, digest_size=8).digest())
