"""Chat completions in vLLM's shapes."""

import secrets
import time
from typing import Any

from poolhouse_agent.simulate import generation, shapes
from poolhouse_agent.simulate.answer import Answer, Terms
from poolhouse_agent.simulate.behaviours import Fault
from poolhouse_agent.simulate.generation import Plan, Step
from poolhouse_agent.simulate.shapes import Frame
from poolhouse_agent.simulate.validation import ChatRequest


def begin(wanted: ChatRequest, terms: Terms, *, prompt_ids: list[int], budget: int) -> "Chat":
    """Plan the answer to an admitted chat. Raises Refused for a schema that cannot be followed."""
    if terms.behaviour.fault is Fault.EMPTY:
        plans = [terms.nothing() for _ in range(wanted.choices)]
    else:
        tokens = terms.engine.tokens
        plans = [generation.plan(wanted, tokens, index=index, budget=budget) for index in range(wanted.choices)]
    return Chat(wanted, terms, prompts=[prompt_ids], plans=plans)


class Chat(Answer):
    """One chat."""

    def frame(self, *, created: int) -> Frame:
        """The fields that all events share."""
        return self._frame(created, is_chunk=True)

    def opening(self, frame: Frame, running: dict[str, Any]) -> list[bytes]:
        """A role without text for each choice."""
        return [
            frame.chunk([shapes.role_choice(index)], **running, prompt_token_ids=self._prompt_ids, prompt_text=None)
            for index in range(self.wanted.choices)
        ]

    def step_choice(self, index: int, step: Step, *, is_last: bool) -> dict[str, Any] | None:
        """One token's choice; a call's frame is not shown."""
        plan = self.plans[index]
        if plan.call_id and not (step.arguments or step.opens_call or is_last):
            return None
        logprobs = shapes.logprobs_of(
            [step], self.engine.tokens, top=self.wanted.top_logprobs, seed=self.wanted.seed + index
        )
        token_ids = [step.token] if self.wanted.has_token_ids else None
        return shapes.step_choice(index, step, plan, logprobs=logprobs, token_ids=token_ids, is_last=is_last)

    def whole_choice(self, index: int, plan: Plan) -> dict[str, Any]:
        """A message."""
        logprobs = shapes.logprobs_of(
            plan.steps, self.engine.tokens, top=self.wanted.top_logprobs, seed=self.wanted.seed + index
        )
        return shapes.whole_choice(index, plan, logprobs=logprobs, has_token_ids=self.wanted.has_token_ids)

    def whole_body(self, choices: list[dict[str, Any]], counts: Any) -> dict[str, Any]:
        """The whole answer."""
        return self._frame(int(time.time()), is_chunk=False).whole(choices, counts, self._prompt_ids)

    @property
    def _prompt_ids(self) -> list[int] | None:
        return self.prompts[0] if self.wanted.has_token_ids else None

    def _frame(self, created: int, *, is_chunk: bool) -> Frame:
        kind = "chat.completion.chunk" if is_chunk else "chat.completion"
        answer_id = f"chatcmpl-{secrets.token_hex(8)}"
        return Frame(answer_id=answer_id, created=created, model=self.engine.model, kind=kind)
