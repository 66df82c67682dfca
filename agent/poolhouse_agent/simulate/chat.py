"""One chat request from admission to its last byte."""

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from jinja2 import TemplateError

from poolhouse_agent.simulate import generation, pacing, shapes
from poolhouse_agent.simulate.behaviours import Behaviour, Fault
from poolhouse_agent.simulate.counters import Counters, PrefixCache
from poolhouse_agent.simulate.generation import Plan, Step
from poolhouse_agent.simulate.tokens import ChatTokens
from poolhouse_agent.simulate.validation import ChatRequest, bad_request, failure

_ENGINE_ERROR = "EngineCore encountered an issue. See stack trace (above) for the root cause."
_QUEUE_FACTOR = 2


class Engine:
    """What all requests share: places, counters, cache, tokenizer."""

    def __init__(self, *, model: str, max_num_seqs: int) -> None:
        self.model = model
        self.tokens = ChatTokens()
        self.counters = Counters(model)
        self.cache = PrefixCache()
        self._max_num_seqs = max_num_seqs
        self._places = asyncio.Semaphore(max_num_seqs)

    def prompt_ids(self, wanted: ChatRequest) -> list[int]:
        """The ids of the prompt. Raises Refused where the template cannot take it."""
        messages = [_handed_over(message) for message in wanted.messages]
        try:
            return self.tokens.prompt_ids(messages, wanted.tools)
        except (TemplateError, TypeError, ValueError) as error:
            raise bad_request(f"The chat template refused the conversation: {error}") from None

    def has_room(self, choices: int) -> bool:
        """Whether the queue takes this many more."""
        return self.counters.running + self.counters.waiting + choices <= self._max_num_seqs * (1 + _QUEUE_FACTOR)

    @contextlib.asynccontextmanager
    async def place(self, choices: int) -> AsyncIterator[None]:
        """Wait for a place and hold it."""
        self.counters.waiting += choices
        try:
            await self._places.acquire()
        finally:
            self.counters.waiting -= choices
        self.counters.running += choices
        try:
            yield
        finally:
            self.counters.running -= choices
            self._places.release()


def _handed_over(message: dict[str, Any]) -> dict[str, Any]:
    """A message as vLLM gives it to a template: its text is never null, a call's arguments are an object."""
    changed = {**message, "content": message.get("content") or ""}
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _arguments(call["function"].get("arguments"))}}
            for call in message["tool_calls"]
        ]
    return changed


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Chat:
    """An admitted request."""

    def __init__(
        self,
        wanted: ChatRequest,
        engine: Engine,
        *,
        behaviour: Behaviour,
        prompt_ids: list[int],
        budget: int,
        tokens_per_second: int,
    ) -> None:
        self._wanted = wanted
        self._engine = engine
        self._behaviour = behaviour
        self._prompt_ids = prompt_ids
        self._plans = self._planned(budget)
        self._speed = tokens_per_second
        self._spoken = 0
        self._cached = engine.cache.look_up(prompt_ids, salt=wanted.cache_salt)
        engine.counters.prompt_tokens += len(prompt_ids)
        engine.counters.cache_queries += len(prompt_ids)
        engine.counters.cached_tokens += self._cached

    def _planned(self, budget: int) -> list[Plan]:
        if self._behaviour.fault is Fault.EMPTY:
            return [Plan([Step(self._engine.tokens.end_id)]) for _ in range(self._wanted.choices)]
        return [
            generation.plan(self._wanted, self._engine.tokens, index=index, budget=budget)
            for index in range(self._wanted.choices)
        ]

    async def whole(self) -> dict[str, Any]:
        """The answer to a request that is not streamed. Raises Refused, Broken."""
        try:
            async for _ in self._steps():
                self._count()
        except pacing.EngineFailed:
            raise failure(500, _ENGINE_ERROR, "InternalServerError") from None
        choices = [self._whole_choice(index, plan) for index, plan in enumerate(self._plans)]
        self._finished()
        prompt_ids = self._prompt_ids if self._wanted.has_token_ids else None
        return self._frame(is_chunk=False).whole(choices, self._usage(), prompt_ids)

    async def events(self) -> AsyncIterator[bytes]:
        """The events of a streamed answer. Raises Broken."""
        frame = self._frame(is_chunk=True)
        prompt_ids = self._prompt_ids if self._wanted.has_token_ids else None
        for index in range(self._wanted.choices):
            yield frame.chunk(
                [shapes.role_choice(index)], **self._running(), prompt_token_ids=prompt_ids, prompt_text=None
            )
        try:
            async for index, step, is_last in self._steps():
                self._count()
                plan = self._plans[index]
                if plan.call_id and not (step.arguments or step.opens_call or is_last):
                    continue
                yield frame.chunk([self._step_choice(index, step, is_last=is_last)], **self._running())
        except pacing.EngineFailed:
            error = {"message": _ENGINE_ERROR, "type": "InternalServerError", "param": None, "code": 500}
            yield shapes.event({"error": error})
            yield shapes.DONE
            return
        self._finished()
        if self._wanted.has_usage and (counts := self._usage()) is not None:
            yield frame.chunk([], usage=counts, system_fingerprint=shapes.FINGERPRINT)
        if self._behaviour.fault is not Fault.NO_DONE:
            yield shapes.DONE

    def _steps(self) -> AsyncIterator[tuple[int, Step, bool]]:
        is_endless = self._behaviour.fault is Fault.ENDLESS
        steps = pacing.endless(self._plans[0]) if is_endless else pacing.interleave(self._plans)
        return pacing.paced(
            steps, behaviour=self._behaviour, tokens_per_second=self._speed, choices=self._wanted.choices
        )

    def _step_choice(self, index: int, step: Step, *, is_last: bool) -> dict[str, Any]:
        logprobs = shapes.logprobs_of(
            [step], self._engine.tokens, top=self._wanted.top_logprobs, seed=self._wanted.seed + index
        )
        token_ids = [step.token] if self._wanted.has_token_ids else None
        return shapes.step_choice(
            index, step, self._plans[index], logprobs=logprobs, token_ids=token_ids, is_last=is_last
        )

    def _whole_choice(self, index: int, plan: Plan) -> dict[str, Any]:
        logprobs = shapes.logprobs_of(
            plan.steps, self._engine.tokens, top=self._wanted.top_logprobs, seed=self._wanted.seed + index
        )
        return shapes.whole_choice(index, plan, logprobs=logprobs, has_token_ids=self._wanted.has_token_ids)

    def _frame(self, *, is_chunk: bool) -> shapes.Frame:
        answer_id = f"chatcmpl-{secrets.token_hex(8)}"
        return shapes.Frame(answer_id=answer_id, created=int(time.time()), model=self._engine.model, is_chunk=is_chunk)

    def _running(self) -> dict[str, Any]:
        if not self._wanted.has_usage_always:
            return {}
        return {"usage": self._usage(is_running=True)}

    def _usage(self, *, is_running: bool = False) -> Any:
        return shapes.usage(
            self._behaviour,
            prompt=len(self._prompt_ids),
            cached=self._cached,
            completion=self._spoken,
            is_running=is_running,
        )

    def _count(self) -> None:
        self._spoken += 1
        self._engine.counters.generation_tokens += 1

    def _finished(self) -> None:
        for plan in self._plans:
            self._engine.counters.finished["length" if plan.finish_reason == "length" else "stop"] += 1
