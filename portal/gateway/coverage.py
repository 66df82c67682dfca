"""What the hold of a long stream pays for: it covers the prompt and some output, and grows ahead of what is delivered.

A token is at least a byte, so what is held always pays for what was counted and for every byte since. What the hold
does not cover is not handed over.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from portal.billing.rules import rating
from portal.gateway import refusals
from portal.gateway.bounds import Bound
from portal.gateway.contracts import Attempt
from portal.gateway.credit import CreditBook
from portal.gateway.refusals import HoldEnded, MoneyRefused

log = logging.getLogger(__name__)

HELD_TOKENS: Final = 4_096
_PARTS_OF_A_STEP: Final = (1, 4, 16)
_ASK_AGAIN_S: Final = 5.0
# Beside the 1 % that a node's claim may exceed our count by: end and stop tokens, a tool call's own, and what a text
# counted in two pieces can differ by from the whole.
_TOOL_CALL_TOKENS: Final = 24
_CUT_TOKENS: Final = 32
_WHOLE: Final = sys.maxsize

Recount = Callable[[], Awaitable[int | None]]


def held_first(bound: Bound, *, choices: int, is_stream: bool) -> Bound:
    """Return what is held before a request begins: all of a whole answer, the first tokens of a long stream."""
    if not is_stream:
        return bound
    return Bound(bound.prompt_tokens, min(bound.output_tokens, choices * HELD_TOKENS))


class Cover:
    """The hold of one long stream. `covered_bytes` of text may have been handed over at most."""

    def __init__(self, attempt: Attempt, *, credit: CreditBook, recount: Recount) -> None:
        self._attempt = attempt
        self._credit = credit
        self._recount = recount
        self._step = attempt.facts.choices * HELD_TOKENS
        self._reserve = attempt.facts.choices * _tokens_beside(attempt) + _CUT_TOKENS
        self._bytes_beyond_tokens = 0
        self._growing: asyncio.Task[None] | None = None
        self._ask_again_at = float("-inf")
        self.covered_bytes = 0
        self._widen()

    @classmethod
    def of(cls, attempt: Attempt, *, credit: CreditBook, recount: Recount) -> "Cover | None":
        """Return the cover of a stream whose hold may not last; None where it pays for all that may come."""
        if not attempt.facts.is_stream or _tokens_held(attempt) >= attempt.facts.output_bound_tokens:
            return None
        return cls(attempt, credit=credit, recount=recount)

    def learn(self, tokens: int, *, at_bytes: int) -> None:
        """Take a count of the first `at_bytes` of what was delivered."""
        self._bytes_beyond_tokens = max(self._bytes_beyond_tokens, at_bytes - tokens)
        self._widen()

    def pays_for(self, size: int) -> bool:
        """Tell whether the hold covers so many bytes more."""
        return self._attempt.delivered_bytes + size <= self.covered_bytes

    async def reach(self, texts: Iterable[tuple[int, str]]) -> None:
        """Return once the hold covers these texts as well. Raises MoneyRefused: then they must not be handed over."""
        wanted = self._attempt.delivered_bytes + sum(len(text.encode()) for _, text in texts)
        if wanted <= self.covered_bytes:
            return
        if self._growing is not None:
            await asyncio.wait({self._growing})
        if wanted > self.covered_bytes:
            await self._count_again()
        if wanted > self.covered_bytes:
            await self._grow(wanted - self.covered_bytes)

    def grow_ahead(self) -> None:
        """Ask for more, beside the stream, once half of what is held at a time is all that is left."""
        left = self.covered_bytes - self._attempt.delivered_bytes
        if left <= self._step // 2 and self._growing is None and time.monotonic() >= self._ask_again_at:
            self._growing = asyncio.get_running_loop().create_task(self._grow_ahead())

    def stop(self) -> None:
        """Ask for no more: the attempt is being settled."""
        if self._growing is not None:
            self._growing.cancel()

    async def _grow_ahead(self) -> None:
        try:
            await self._grow(1)
        except (MoneyRefused, HoldEnded) as refusal:
            self._ask_again_at = time.monotonic() + _ASK_AGAIN_S
            log.info("coverage.not_grown", extra={"code": refusal.code})
        finally:
            self._growing = None

    async def _grow(self, wanted: int) -> None:
        """Hold as much more as can be had, at least for `wanted` bytes. Raises MoneyRefused, HoldEnded."""
        least = wanted + wanted // 100 + 1
        steps = sorted({max(self._step // part, least) for part in _PARTS_OF_A_STEP})
        while True:
            tokens = min(_tokens_held(self._attempt) + steps.pop(), self._attempt.facts.output_bound_tokens)
            try:
                await self._credit.extend(self._attempt.hold, _cost(self._attempt, tokens) - self._attempt.hold.nano)
            except MoneyRefused as refusal:
                if not steps:
                    raise refusals.ended(refusal) from refusal
            else:
                self._widen()
                return

    async def _count_again(self) -> None:
        at_bytes = self._attempt.delivered_bytes
        tokens = await self._recount()
        if tokens is not None:
            self.learn(tokens, at_bytes=at_bytes)

    def _widen(self) -> None:
        held = _tokens_held(self._attempt)
        if held >= self._attempt.facts.output_bound_tokens:
            self.covered_bytes = _WHOLE
        else:
            counted_at_most = (held - self._reserve) * 100 // 101  # what is billed may be 1 % more than what is counted
            self.covered_bytes = counted_at_most + self._bytes_beyond_tokens


def _tokens_held(attempt: Attempt) -> int:
    """Return how many tokens of output the hold pays for, after all of the prompt."""
    price = attempt.price
    if not price.completion_nano_per_mtok:
        return _WHOLE
    return rating.completion_for(price=price, prompt=attempt.facts.prompt_bound_tokens, nano=attempt.hold.nano)


def _cost(attempt: Attempt, tokens: int) -> int:
    return Bound(attempt.facts.prompt_bound_tokens, tokens).nano(attempt.price)


def _tokens_beside(attempt: Attempt) -> int:
    """Return the tokens of one choice that are billed beside its text."""
    body: Mapping[str, Any] = attempt.facts.body
    stop = body.get("stop") or ()
    stops = [stop] if isinstance(stop, str) else stop
    longest = max((len(text.encode()) for text in stops), default=0)
    return attempt.facts.model.end_tokens + longest + (_TOOL_CALL_TOKENS if body.get("tools") else 0)
