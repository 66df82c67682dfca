"""Plans what one choice says: token by token, with the reason it ends."""

import hashlib
import itertools
import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from poolhouse_agent.simulate import words
from poolhouse_agent.simulate.samples import BadSchema, Sampler
from poolhouse_agent.simulate.tokens import ChatTokens
from poolhouse_agent.simulate.validation import ChatRequest, bad_request

_CALL_HEAD = '<tool_call>\n{"name": "%s", "arguments": '
_CALL_TAIL = "}\n</tool_call>"
_FORCED = frozenset({"required"})


@dataclass(frozen=True, slots=True)
class Step:
    """One token: what it adds to the text, or to a tool call's arguments, or the call it opens."""

    token: int
    text: str = ""
    arguments: str = ""
    opens_call: str = ""


@dataclass(slots=True)
class Plan:
    """One choice from its first to its last token."""

    steps: list[Step] = field(default_factory=list)
    finish_reason: str = "stop"
    stop_reason: str | None = None
    call_id: str = ""

    @property
    def text(self) -> str:
        """The whole content."""
        return "".join(step.text for step in self.steps)

    @property
    def arguments(self) -> str:
        """The whole arguments of the tool call."""
        return "".join(step.arguments for step in self.steps)

    @property
    def call_name(self) -> str:
        """The function that is called, or an empty text."""
        return next((step.opens_call for step in self.steps if step.opens_call), "")


def plan(request: ChatRequest, tokens: ChatTokens, *, index: int, budget: int) -> Plan:
    """Plan choice `index` with at most `budget` tokens. Raises Refused for a schema that cannot be followed."""
    question, seed = _question(request.messages), request.seed + index
    if function := _called(request, question):
        return _call(request, function, tokens, question=question, seed=seed, budget=budget)
    if request.fixed_choices:
        text = request.fixed_choices[seed % len(request.fixed_choices)]
        return _spoken(request, tokens, text, budget)
    if request.schema is not None:
        text = json.dumps(_sample(request.schema, question, seed), ensure_ascii=False)
        return _spoken(request, tokens, text, budget)
    return _spoken(request, tokens, _prose(request, tokens, question, seed, budget), budget)


def _prose(request: ChatRequest, tokens: ChatTokens, question: str, seed: int, budget: int) -> str:
    text, wanted = "", budget if request.ignores_end else min(budget, request.min_tokens)
    for round_ in itertools.count():
        text += "".join(words.answer(question, seed=seed + round_))
        if len(tokens.encode(text)) >= wanted:
            return text
        text += " "
    raise AssertionError("itertools.count never ends")


def _spoken(request: ChatRequest, tokens: ChatTokens, text: str, budget: int) -> Plan:
    ids = tokens.encode(text)
    is_whole = len(ids) < budget and not request.ignores_end
    ids = [*ids, tokens.end_id] if is_whole else ids[:budget]
    steps = [Step(one, text=piece) for one, piece in zip(ids, tokens.pieces(ids), strict=True)]
    made = Plan(steps=steps, finish_reason="stop" if is_whole else "length")
    return _stopped(made, request.stop)


def _stopped(made: Plan, stops: Sequence[str]) -> Plan:
    """Cut the plan where a stop string is complete; its tokens count, its text is not given out."""
    text = ""
    for number, step in enumerate(made.steps):
        text += step.text
        hits = [(text.find(stop), stop) for stop in stops if stop in text]
        if hits:
            at, stop = min(hits)
            return Plan(_shortened(made.steps[: number + 1], at), "stop", stop, made.call_id)
    return made


def _shortened(steps: list[Step], length: int) -> list[Step]:
    kept, left = [], length
    for step in steps:
        kept.append(Step(step.token, text=step.text[:left]))
        left -= len(kept[-1].text)
    return kept


def _call(
    request: ChatRequest, function: dict[str, Any], tokens: ChatTokens, *, question: str, seed: int, budget: int
) -> Plan:
    name = str(function["name"])
    arguments = json.dumps(
        _sample(function.get("parameters") or {"type": "object"}, question, seed), ensure_ascii=False
    )
    head = _CALL_HEAD % name
    ids = [*tokens.encode(head + arguments + _CALL_TAIL), tokens.end_id]
    steps, at, is_open = [], 0, False
    for one, piece in zip(ids, tokens.pieces(ids), strict=True):
        shown = piece[max(0, len(head) - at) : max(0, len(head) + len(arguments) - at)]
        opens = name if not is_open and at + len(piece) >= len(head) else ""
        is_open = is_open or bool(opens)
        steps.append(Step(one, arguments=shown, opens_call=opens))
        at += len(piece)
    is_whole = len(steps) <= budget
    reason = ("stop" if isinstance(request.tool_choice, dict) else "tool_calls") if is_whole else "length"
    return Plan(steps[:budget], reason, call_id=f"chatcmpl-tool-{secrets.token_hex(16)}")


def _called(request: ChatRequest, question: str) -> dict[str, Any] | None:
    """The function to call: the forced one, any when one is required, else one that the question names."""
    functions: list[dict[str, Any]] = [
        tool["function"] for tool in request.tools or () if isinstance(tool.get("function"), dict)
    ]
    choice = request.tool_choice
    if not functions or choice == "none":
        return None
    if isinstance(choice, dict):
        wanted = (choice.get("function") or {}).get("name")
        found = next((one for one in functions if one.get("name") == wanted), None)
        if found is None:
            raise bad_request(f"Tool choice names {wanted!r}, which is not among the tools.")
        return found
    if request.messages[-1].get("role") == "tool":
        return None
    named = next((one for one in functions if _is_meant(one, question)), None)
    return named or (functions[0] if choice in _FORCED else None)


def _is_meant(function: dict[str, Any], question: str) -> bool:
    asked = set(question.lower().replace("?", " ").replace(".", " ").split())
    telling = f"{function.get('name', '')} {function.get('description', '')}".lower().replace("_", " ").split()
    return any(len(word) > 3 and word.strip(".,") in asked for word in telling)  # noqa: PLR2004  short words say little


def _sample(schema: dict[str, Any], question: str, seed: int) -> Any:
    try:
        return Sampler(schema, question=question, seed=seed).sample()
    except (BadSchema, TypeError, ValueError) as error:
        raise bad_request(str(error)) from None


def _question(messages: Sequence[dict[str, Any]]) -> str:
    texts = [str(message.get("content") or "") for message in messages if message.get("role") == "user"]
    return texts[-1] if texts else str(messages[-1].get("content") or "")


def logprob(token: int, seed: int) -> float:
    """A believable log probability, the same for the same token and seed."""
    digest = hashlib.sha256(f"{token}:{seed}".encode()).digest()
    return math.log(0.55 + digest[0] / 256 * 0.45)
