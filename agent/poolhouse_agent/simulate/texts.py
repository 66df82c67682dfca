"""Text completions in vLLM's shapes: several prompts, each with several choices."""

import secrets
import time
from dataclasses import replace
from typing import Any

from poolhouse_agent.simulate import generation, shapes
from poolhouse_agent.simulate.answer import Answer, Terms
from poolhouse_agent.simulate.behaviours import Fault
from poolhouse_agent.simulate.generation import Plan, Step
from poolhouse_agent.simulate.shapes import Frame
from poolhouse_agent.simulate.validation import ChatRequest


def begin(wanted: ChatRequest, terms: Terms, *, prompts: list[list[int]], budget: int) -> "Texts":
    """Plan the answer to admitted prompts. Raises Refused for a schema that cannot be followed."""
    if terms.behaviour.fault is Fault.EMPTY:
        plans = [terms.nothing() for _ in range(len(prompts) * wanted.choices)]
    else:
        plans = [plan for ids in prompts for plan in _plans(wanted, terms, ids, budget)]
    return Texts(wanted, terms, prompts=prompts, plans=plans)


def _plans(wanted: ChatRequest, terms: Terms, ids: list[int], budget: int) -> list[Plan]:
    tokens = terms.engine.tokens
    asked = replace(wanted, messages=[{"role": "user", "content": tokens.decode(ids)}])
    return [generation.plan(asked, tokens, index=index, budget=budget) for index in range(wanted.choices)]


class Texts(Answer):
    """Prompts continued; choice `prompt * n + k` continues its prompt for the k-th time."""

    def frame(self, *, created: int) -> Frame:
        """The fields that all events share."""
        answer_id = f"cmpl-{secrets.token_hex(8)}"
        return Frame(answer_id=answer_id, created=created, model=self.engine.model, kind="text_completion")

    def opening(self, frame: Frame, running: dict[str, Any]) -> list[bytes]:
        """Nothing: the first token is the first event."""
        del frame, running
        return []

    def step_choice(self, index: int, step: Step, *, is_last: bool) -> dict[str, Any]:
        """One token's choice."""
        plan = self.plans[index]
        return {
            "index": index,
            "text": step.text,
            "logprobs": self._logprobs(index, [step]),
            "finish_reason": plan.finish_reason if is_last else None,
            "stop_reason": plan.stop_reason if is_last else None,
            "prompt_token_ids": None,
            "token_ids": [step.token] if self.wanted.has_token_ids else None,
        }

    def whole_choice(self, index: int, plan: Plan) -> dict[str, Any]:
        """A whole text."""
        ids = self.prompts[index // self.wanted.choices]
        return {
            "index": index,
            "text": plan.text,
            "logprobs": self._logprobs(index, plan.steps),
            "finish_reason": plan.finish_reason,
            "stop_reason": plan.stop_reason,
            "token_ids": [step.token for step in plan.steps] if self.wanted.has_token_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": ids if self.wanted.has_token_ids else None,
            "routed_experts": None,
        }

    def whole_body(self, choices: list[dict[str, Any]], counts: Any) -> dict[str, Any]:
        """The whole answer."""
        return self.frame(created=int(time.time())).whole_text(choices, counts)

    def _logprobs(self, index: int, steps: list[Step]) -> dict[str, Any] | None:
        top, seed = self.wanted.top_logprobs, self.wanted.seed + index
        return shapes.text_logprobs_of(steps, self.engine.tokens, top=top, seed=seed, offset=0)
