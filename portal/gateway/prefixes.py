"""How much of a prompt a node must have had in its prefix cache, from what this process sent there before.

A lower bound: other processes' requests are not known here, blocks are coarser than the engine's, and what was sent
long ago is taken to be evicted. One object serves all counting threads.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BLOCK_TOKENS: Final = 64
KEPT_BLOCKS: Final = 32_768
FRESH_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One prompt on its way: where to, for which tenant, when it left and when its first token came (Unix seconds)."""

    node_id: int
    tenant: int
    opened_at: float
    first_token_at: float | None


class PrefixHistory:
    """The prompts that nodes have answered lately, as chained hashes of their blocks."""

    def __init__(self, *, blocks: int = KEPT_BLOCKS) -> None:
        self._blocks = blocks
        self._known: dict[int, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def note(self, sent: Sent, ids: Sequence[int]) -> int:
        """Return the tokens of the prompt that were in the node's cache when it came; then remember the prompt.

        Only prompts whose first token had come before this one left count: their prefill was done.
        """
        chain = _chain(sent, ids)
        if not chain:
            return 0
        with self._lock:
            expected = self._expected(chain, sent.opened_at)
            if sent.first_token_at is not None:
                self._remember(chain, since=sent.first_token_at)
        return expected * BLOCK_TOKENS

    def _expected(self, chain: list[int], opened_at: float) -> int:
        for position, block in enumerate(chain):
            since, last = self._known.get(block, (float("inf"), 0.0))
            if since > opened_at or last < opened_at - FRESH_S:
                return position
        return len(chain)

    def _remember(self, chain: list[int], *, since: float) -> None:
        # The last block first: where room is short, the tail of a prompt goes before its head.
        for block in reversed(chain):
            earliest, last = self._known.pop(block, (since, since))
            self._known[block] = (min(earliest, since), max(last, since))
        while len(self._known) > self._blocks:
            del self._known[next(iter(self._known))]


def _chain(sent: Sent, ids: Sequence[int]) -> list[int]:
    """Return a hash for each whole block; an engine never serves the last token of a prompt from its cache."""
    found: list[int] = []
    previous = hash((sent.node_id, sent.tenant))
    for start in range(0, len(ids) - BLOCK_TOKENS, BLOCK_TOKENS):
        previous = hash((previous, *ids[start : start + BLOCK_TOKENS]))
        found.append(previous)
    return found
