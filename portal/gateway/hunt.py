"""The nodes of one request, one after another: who is asked next, and when nobody else is. Nobody else retries."""

import time
from collections.abc import Callable
from typing import Final

from portal.gateway.breaker import Verdict
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import Snapshot
from portal.gateway.failures import BUSY, CONTEXT, CUSTOMER, NodeFailed
from portal.gateway.load import NodeLoad
from portal.gateway.relay.calls import Call
from portal.gateway.retry_budget import RetryBudget
from portal.gateway.routing import Choice, Router, Wanted
from portal.gateway.waiting import LONGEST_WAIT_S, Waiting

MAX_ATTEMPTS: Final = 3
# The last attempt begins no later than this after the time the first one has for its first token.
RETRY_GRACE_S: Final = 5.0
# What only the engine can judge, and every engine judges alike: a schema that does not compile, ids out of range.
# Where a request has none of these, or needs what one node may lack (a tool parser), another node is asked too.
_JUDGED_BY_ENGINE: Final = frozenset(
    {"response_format", "structured_outputs", "logit_bias", "bad_words", "allowed_token_ids", "stop_token_ids"}
    | {"chat_template_kwargs"}
)


class Hunt:
    """Finds a node for each attempt of one request."""

    def __init__(
        self,
        call: Call,
        *,
        router: Router,
        waiting: Waiting,
        retries: RetryBudget,
        snapshot: Snapshot,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = 0
        self.is_over = False
        self._call = call
        self._router = router
        self._waiting = waiting
        self._retries = retries
        self._snapshot = snapshot
        self._wanted = _wanted(call)
        self._tried: set[int] = set()
        self._disputed: list[NodeLoad] = []
        self._clock = clock
        self._began = clock()
        self._waited_s = 0.0
        retries.note_request(call.facts.model.id)

    async def next(self) -> Choice:
        """Return a place for the next attempt, waiting for one a short while. Raises NoCapacity, CustomerGone."""
        try:
            choice = await self._choose()
        except NoCapacity:
            if self.number:
                self._retries.put_back(self._call.facts.model.id)
            raise
        self.number += 1
        self._tried.add(choice.node.id)
        return choice

    def note_failure(self, failure: NodeFailed, choice: Choice, *, has_delivered: bool) -> str:
        """Decide whether another node is asked; return what stopped it where a retry would have made sense."""
        if failure.is_disputed:
            self._disputed.append(choice.ticket.load)
        if failure.outcome == BUSY:
            self._tried.discard(choice.node.id)  # it only wants to be left alone for a moment, and its breaker knows
        if has_delivered or self._is_final(failure):
            self.is_over = True
            return ""
        stopped_by = self._stopped_by()
        self.is_over = bool(stopped_by)
        return stopped_by

    def served(self) -> None:
        """Take it that a node did serve the request: whoever said that the request was wrong, was wrong."""
        now = self._clock()
        for load in self._disputed:
            load.breaker.note(Verdict.FAULT, now)

    async def _choose(self) -> Choice:
        try:
            return self._router.choose(self._wanted, self._snapshot, tried=self._tried)
        except NoCapacity as refusal:
            left_s = LONGEST_WAIT_S - self._waited_s
            if not refusal.may_wait or left_s <= 0:
                raise
            began = self._clock()
            try:
                return await self._waiting.wait(
                    self._wanted, refusal, self._call.exchange, tried=self._tried, timeout_s=left_s
                )
            finally:
                self._waited_s += self._clock() - began

    def _is_final(self, failure: NodeFailed) -> bool:
        """Whether the request itself is at fault: the customer's error, which no other node would make good."""
        if failure.outcome != CUSTOMER:
            return failure.is_final
        facts, asked = self._call.facts, self._call.asked
        if failure.code == CONTEXT:
            return facts.prompt_bound_tokens + asked.output_tokens > facts.model.context_tokens
        return not _JUDGED_BY_ENGINE.isdisjoint(facts.body)

    def _stopped_by(self) -> str:
        model = self._call.facts.model
        if self.number >= MAX_ATTEMPTS:
            return "attempts"
        if self._clock() - self._began > model.first_token_timeout_s + RETRY_GRACE_S:
            return "deadline"
        return "" if self._retries.take(model.id) else "budget"


def _wanted(call: Call) -> Wanted:
    facts, asked = call.facts, call.asked
    return Wanted(
        key=facts.key,
        model=facts.model,
        price=facts.price,
        at=facts.opened_at,
        has_tools=asked.has_tools,
        tokens=asked.choices * asked.output_tokens,
        affinity=call.affinity,
        is_session=call.is_session,
    )
