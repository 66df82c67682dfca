"""How many tokens are billed: the node's claim, never more than our own count allows."""

from enum import IntEnum

from portal.core.records import record

_TOLERANCE_PART = 100
# A text's tokens are not spread evenly over its bytes.
_SURE_PART, _SURE_WHOLE = 9, 10
_ENGINE_BLOCK = 16
MAX_TOKENS = 2**31 - 1


class Source(IntEnum):
    """Where a billed count comes from; the larger, the less exact. `label` is the record's word for it."""

    CLAIM = 1
    COUNT = 2
    MARK = 3
    BOUND = 4

    @property
    def label(self) -> str:
        """Return the word stored in the record."""
        return self.name.lower()


@record(frozen=True, slots=True)
class Counted:
    """Our own count of one field, or only the bound that bytes give. `extra` are end and stop tokens, never shown."""

    tokens: int | None
    bound: int
    extra: int = 0


@record(frozen=True, slots=True)
class Billed:
    """The tokens that are billed and where they come from."""

    tokens: int
    source: Source


def bill(*, claim: int | None, counted: Counted, has_tolerance: bool) -> Billed:
    """Return min(claim, count + end and stop tokens + 1 %), the count where nothing was claimed, the bound without one.

    A node that lost its tolerance gets no 1 %.
    """
    if counted.tokens is None:
        tokens = counted.bound if claim is None else min(claim, counted.bound)
        return Billed(tokens, Source.BOUND)
    if claim is None:
        return Billed(counted.tokens, Source.COUNT)
    limit = counted.tokens + counted.extra
    if has_tolerance:
        limit += counted.tokens // _TOLERANCE_PART
    return Billed(claim, Source.CLAIM) if claim <= limit else Billed(limit, Source.COUNT)


def expected_cached(*, prompt: int, matched_bytes: int, all_bytes: int) -> int:
    """Return a lower bound of the tokens that a matched beginning of the prompt has, in the engine's own blocks."""
    share = prompt * matched_bytes * _SURE_PART // (all_bytes * _SURE_WHOLE)
    return share // _ENGINE_BLOCK * _ENGINE_BLOCK


def sound(claim: int | None) -> int | None:
    """Return a claim that fits its column: nothing negative, nothing beyond what any model can count to."""
    return None if claim is None else max(0, min(claim, MAX_TOKENS))
