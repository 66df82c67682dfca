"""How much of a prompt a node must have had in its prefix cache, from what this process sent there before.

A lower bound: other processes' requests are not known here, and what was sent long ago is taken to be evicted.
"""

from dataclasses import dataclass
from typing import Final

import orjson

from portal.gateway.contracts import Attempt
from portal.metering.rules import counting

BLOCK_BYTES: Final = 256
KEPT_BLOCKS: Final = 65_536
FRESH_S: Final = 300.0
# Below this a cached share is worth little, and looking for it would cost every short request.
MIN_TOKENS: Final = 1_024


@dataclass(frozen=True, slots=True)
class Sent:
    """One prompt on its way: who may share its cache, when it left and when its first token came (Unix seconds)."""

    scope: tuple[object, ...]
    opened_at: float
    first_token_at: float | None


class PrefixHistory:
    """The prompts that nodes have answered lately, as chained hashes of their blocks."""

    def __init__(self, *, blocks: int = KEPT_BLOCKS) -> None:
        self._blocks = blocks
        self._known: dict[int, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def expected_tokens(self, attempt: Attempt, *, prompt_tokens: int | None) -> int | None:
        """Return the prompt tokens that the node's cache must have held; None where that is not looked at."""
        facts = attempt.facts
        if prompt_tokens is None or prompt_tokens < MIN_TOKENS or not facts.model.caches_prefixes:
            return None
        body = facts.body
        content = orjson.dumps(body.get("messages") or body.get("prompt"))
        before = orjson.dumps((body.get("tools"), body.get("chat_template_kwargs")))
        scope = (attempt.node.id, facts.model.id, facts.key.organization_id, before)
        matched = self.note(Sent(scope, attempt.opened_at, attempt.first_token_at), content)
        return counting.expected_cached(prompt=prompt_tokens, matched_bytes=matched, all_bytes=len(content))

    def note(self, sent: Sent, content: bytes) -> int:
        """Return how many bytes of the prompt were in the node's cache when it came; then remember the prompt.

        Only prompts whose first token had come before this one left count: their prefill was done.
        """
        chain = _chain(sent, content)
        expected = self._expected(chain, sent.opened_at)
        if sent.first_token_at is not None:
            self._remember(chain, since=sent.first_token_at)
        return expected * BLOCK_BYTES

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


def _chain(sent: Sent, content: bytes) -> list[int]:
    """Return a hash for each whole block, each with all before it; an engine never caches a prompt's last token."""
    found: list[int] = []
    previous = hash(sent.scope)
    for start in range(0, len(content) - BLOCK_BYTES, BLOCK_BYTES):
        previous = hash((previous, content[start : start + BLOCK_BYTES]))
        found.append(previous)
    return found
