"""The JSON of answers, field by field as vLLM writes it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from poolhouse_agent.simulate.behaviours import Behaviour, UsageShape
from poolhouse_agent.simulate.generation import Plan, Step, logprob
from poolhouse_agent.simulate.tokens import ChatTokens

FINGERPRINT = "vllm-0.32.0-51a2ed00"
DONE = b"data: [DONE]\n\n"


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def usage(behaviour: Behaviour, *, prompt: int, cached: int, completion: int, is_running: bool = False) -> Any:
    """The usage object: honest, or bent as the behaviour says."""
    prompt *= behaviour.prompt_factor
    completion *= behaviour.completion_factor
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
    }
    if not is_running:
        counts["prompt_tokens_details"] = {"cached_tokens": cached, "created_cache_tokens": 0}
    match behaviour.usage:
        case UsageShape.MISSING:
            return None
        case UsageShape.NEGATIVE:
            counts["completion_tokens"] = -completion
        case UsageShape.TEXT:
            counts["completion_tokens"] = str(completion)
        case UsageShape.FRACTION:
            counts["completion_tokens"] = completion + 0.5
        case UsageShape.HUGE:
            counts["completion_tokens"] = 10**30
        case UsageShape.NOT_AN_OBJECT:
            return [prompt, completion]
        case UsageShape.CACHED_ABOVE_PROMPT:
            counts["prompt_tokens_details"] = {"cached_tokens": prompt * 10}
    return counts


class Frame:
    """The fields that all parts of one answer share."""

    def __init__(self, *, answer_id: str, created: int, model: str, kind: str) -> None:
        self._common = {"id": answer_id, "object": kind, "created": created, "model": model}

    def chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        """One event of a stream."""
        return event({**self._common, "choices": choices, **more})

    def whole(self, choices: list[dict[str, Any]], counts: Any, prompt_ids: list[int] | None) -> dict[str, Any]:
        """A whole answer."""
        return {
            **self._common,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": counts,
            "prompt_logprobs": None,
            "prompt_token_ids": prompt_ids,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
        }

    def whole_text(self, choices: list[dict[str, Any]], counts: Any) -> dict[str, Any]:
        """A whole answer of text completions."""
        return {
            **self._common,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": counts,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }


def role_choice(index: int) -> dict[str, Any]:
    """The first chunk of a choice: a role and no text."""
    return {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}


def step_choice(
    index: int, step: Step, plan: Plan, *, logprobs: Any, token_ids: list[int] | None, is_last: bool
) -> dict[str, Any]:
    """One token's chunk."""
    choice = {"index": index, "delta": _delta(step, plan), "logprobs": logprobs, "finish_reason": None}
    if is_last:
        choice |= {"finish_reason": plan.finish_reason, "stop_reason": plan.stop_reason}
    return choice | {"token_ids": token_ids}


def _delta(step: Step, plan: Plan) -> dict[str, Any]:
    if step.opens_call:
        function = {"name": step.opens_call, "arguments": step.arguments}
        return {"tool_calls": [{"id": plan.call_id, "type": "function", "index": 0, "function": function}]}
    if step.arguments:
        return {"tool_calls": [{"index": 0, "function": {"arguments": step.arguments}}]}
    return {} if plan.call_id else {"content": step.text}


def whole_choice(index: int, plan: Plan, *, logprobs: Any, has_token_ids: bool) -> dict[str, Any]:
    """A choice of a whole answer."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if plan.call_name else plan.text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    if plan.call_name:
        function = {"name": plan.call_name, "arguments": plan.arguments}
        message["tool_calls"] = [{"id": plan.call_id, "type": "function", "function": function}]
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": plan.finish_reason,
        "stop_reason": plan.stop_reason,
        "token_ids": [step.token for step in plan.steps] if has_token_ids else None,
        "routed_experts": None,
    }


def logprobs_of(steps: Sequence[Step], tokens: ChatTokens, *, top: int | None, seed: int) -> Mapping[str, Any] | None:
    """The log probabilities of some tokens, or None where nobody asked."""
    if top is None:
        return None
    content = []
    for step in steps:
        own = _entry(step.token, tokens, logprob(step.token, seed))
        others = [_entry((step.token + 7 * n) % tokens.vocabulary, tokens, -3.0 - n) for n in range(1, top)]
        content.append({**own, "top_logprobs": [own, *others] if top else []})
    return {"content": content}


def _entry(token: int, tokens: ChatTokens, value: float) -> dict[str, Any]:
    raw = tokens.token_bytes(token)
    return {"token": raw.decode("utf-8", "replace"), "logprob": value, "bytes": list(raw)}


def text_logprobs_of(
    steps: Sequence[Step], tokens: ChatTokens, *, top: int | None, seed: int, offset: int
) -> dict[str, Any] | None:
    """The log probabilities of text completions: four lists, one entry a token; None where nobody asked."""
    if top is None:
        return None
    names = [tokens.token_bytes(step.token).decode("utf-8", "replace") for step in steps]
    numbers = [logprob(step.token, seed) for step in steps]
    offsets = []
    for step in steps:
        offsets.append(offset)
        offset += len(step.text)
    tops = [
        {name: number, **_others(step.token, tokens, top)}
        for step, name, number in zip(steps, names, numbers, strict=True)
    ]
    return {"text_offset": offsets, "token_logprobs": numbers, "tokens": names, "top_logprobs": tops}


def _others(token: int, tokens: ChatTokens, top: int) -> dict[str, float]:
    ids = [(token + 7 * n) % tokens.vocabulary for n in range(1, top)]
    return {tokens.token_bytes(one).decode("utf-8", "replace"): -3.0 - n for n, one in enumerate(ids, start=1)}
