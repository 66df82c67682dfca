"""A generated answer from admission to its last byte, whichever of the two generating paths it came by."""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from poolhouse_agent.simulate import pacing, shapes
from poolhouse_agent.simulate.behaviours import Behaviour, Fault
from poolhouse_agent.simulate.engine import Engine
from poolhouse_agent.simulate.generation import Plan, Step
from poolhouse_agent.simulate.shapes import Frame
from poolhouse_agent.simulate.validation import ChatRequest, failure

_ENGINE_ERROR = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@dataclass(frozen=True, slots=True)
class Terms:
    """How the request is answered."""

    engine: Engine
    behaviour: Behaviour
    tokens_per_second: int

    def nothing(self) -> Plan:
        """Return a choice that ends before its first word."""
        return Plan([Step(self.engine.tokens.end_id)])


class Answer(ABC):
    """An admitted request; `prompts` are its prompts as token ids, `plans` what each choice will say."""

    def __init__(self, wanted: ChatRequest, terms: Terms, *, prompts: Sequence[list[int]], plans: list[Plan]) -> None:
        self.wanted = wanted
        self.engine = terms.engine
        self.prompts = prompts
        self.plans = plans
        self._terms = terms
        self._spoken = 0
        self._prompt_tokens = sum(map(len, prompts))
        self._cached = sum(self.engine.cache.look_up(ids, salt=wanted.cache_salt) for ids in prompts)
        self.engine.counters.prompt_tokens += self._prompt_tokens
        self.engine.counters.cache_queries += self._prompt_tokens
        self.engine.counters.cached_tokens += self._cached

    async def whole(self) -> dict[str, Any]:
        """The answer to a request that is not streamed. Raises Refused, Broken."""
        try:
            async for _ in self._steps():
                self._count()
        except pacing.EngineFailed:
            raise failure(500, _ENGINE_ERROR, "InternalServerError") from None
        choices = [self.whole_choice(index, plan) for index, plan in enumerate(self.plans)]
        self._finished()
        return self.whole_body(choices, self._usage())

    async def events(self) -> AsyncIterator[bytes]:
        """The events of a streamed answer. Raises Broken."""
        frame = self.frame(created=int(time.time()))
        for event in self.opening(frame, self._running()):
            yield event
        try:
            async for index, step, is_last in self._steps():
                self._count()
                choice = self.step_choice(index, step, is_last=is_last)
                if choice is not None:
                    yield frame.chunk([choice], **self._running())
        except pacing.EngineFailed:
            error = {"message": _ENGINE_ERROR, "type": "InternalServerError", "param": None, "code": 500}
            yield shapes.event({"error": error})
            yield shapes.DONE
            return
        self._finished()
        if self.wanted.has_usage and (counts := self._usage()) is not None:
            yield frame.chunk([], usage=counts, system_fingerprint=shapes.FINGERPRINT)
        if self._terms.behaviour.fault is not Fault.NO_DONE:
            yield shapes.DONE

    @abstractmethod
    def frame(self, *, created: int) -> Frame:
        """The fields that all events share."""

    @abstractmethod
    def opening(self, frame: Frame, running: dict[str, Any]) -> list[bytes]:
        """The events before the first token."""

    @abstractmethod
    def step_choice(self, index: int, step: Step, *, is_last: bool) -> dict[str, Any] | None:
        """One token's choice; None for a token that shows nothing."""

    @abstractmethod
    def whole_choice(self, index: int, plan: Plan) -> dict[str, Any]:
        """A choice of a whole answer."""

    @abstractmethod
    def whole_body(self, choices: list[dict[str, Any]], counts: Any) -> dict[str, Any]:
        """The whole answer."""

    def _steps(self) -> AsyncIterator[tuple[int, Step, bool]]:
        behaviour = self._terms.behaviour
        is_endless = behaviour.fault is Fault.ENDLESS
        steps = pacing.endless(self.plans[0]) if is_endless else pacing.interleave(self.plans)
        speed = self._terms.tokens_per_second
        return pacing.paced(steps, behaviour=behaviour, tokens_per_second=speed, choices=len(self.plans))

    def _running(self) -> dict[str, Any]:
        return {"usage": self._usage(is_running=True)} if self.wanted.has_usage_always else {}

    def _usage(self, *, is_running: bool = False) -> Any:
        return shapes.usage(
            self._terms.behaviour,
            prompt=self._prompt_tokens,
            cached=self._cached,
            completion=self._spoken,
            is_running=is_running,
        )

    def _count(self) -> None:
        self._spoken += 1
        self.engine.counters.generation_tokens += 1

    def _finished(self) -> None:
        for plan in self.plans:
            self.engine.counters.finished["length" if plan.finish_reason == "length" else "stop"] += 1
