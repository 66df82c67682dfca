"""A node's model that answers as real ones do: it thinks when asked to, calls the tools it has, reads their results.

What it says follows from the request alone, and its counts are true by the simulator's tokenizer.
"""

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from poolhouse_agent.simulate.engine import handed_over
from poolhouse_agent.simulate.tokens import ChatTokens

from tests.fakes.scripted_node import Reply, usage
from tests.fakes.scripts import tokens

TEXT = "The pool answers in plain words, one token at a time."
THOUGHT = "First I look at what is asked."
BREAKS = "break the stream"
PAUSES = "pause after some words"

_SOME = 3

Part = dict[str, Any]


async def assistant(reply: Reply) -> None:
    """Answer one request."""
    body = reply.body
    parts, reason, stopped = _answer(body)
    prompt, completion = prompt_tokens(body), sum(len(tokens(text)) for text in map(_text, parts)) + 1
    if not body.get("stream"):
        message = _message(parts)
        choice = {"index": 0, "message": message, "finish_reason": reason, "stop_reason": stopped}
        await reply.whole({"choices": [choice], "usage": usage(prompt, completion)})
        return
    await reply.begin()
    await _delta(reply, {"role": "assistant", "content": ""})
    for number, piece in enumerate(piece for part in parts for piece in _pieces(part)):
        await _delta(reply, piece)
        if number == _SOME and PAUSES in _asked(body):
            await asyncio.sleep(60)
    if BREAKS in _asked(body):
        await reply.fail("engine_died")
        return
    await reply.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason, "stop_reason": stopped}]})
    await reply.event({"choices": [], "usage": usage(prompt, completion)})
    await reply.write(b"data: [DONE]\n\n")
    await reply.end()


def prompt_tokens(body: dict[str, Any]) -> int:
    """Count the prompt as the simulator does."""
    rows = [handed_over(row) for row in body["messages"]]
    return len(_counter().prompt_ids(rows, body.get("tools")))


@cache
def _counter() -> ChatTokens:
    return ChatTokens()


def _answer(body: dict[str, Any]) -> tuple[list[Part], str, str | None]:
    parts: list[Part] = []
    if body.get("chat_template_kwargs", {}).get("enable_thinking") or body.get("reasoning_effort"):
        parts.append({"reasoning": THOUGHT})
    called = _called(body)
    if called:
        return [*parts, *({"tool_calls": [call]} for call in called)], "tool_calls", None
    text = _result(body) or TEXT
    if "response_format" in body:
        text = '{"ok": true}'
    for stop in body.get("stop", ()):
        if stop in text:
            return [*parts, {"content": text[: text.index(stop)]}], "stop", stop
    pieces = tokens(text)[: body["max_tokens"]]
    is_cut = len(pieces) < len(tokens(text))
    return [*parts, {"content": "".join(pieces)}], "length" if is_cut else "stop", None


def _called(body: dict[str, Any]) -> list[Part]:
    """Call the tools that the user names, or the one that is demanded; after results none is called."""
    choice = body.get("tool_choice", "auto")
    if not body.get("tools") or choice == "none" or body["messages"][-1]["role"] == "tool":
        return []
    offered = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body["tools"]}
    wanted = [name for name in offered if name in _asked(body).split()]
    if isinstance(choice, dict):
        wanted = [choice["function"]["name"]]
    elif choice == "required":
        wanted = wanted or list(offered)[:1]
    if body.get("parallel_tool_calls") is False:
        wanted = wanted[:1]
    return [
        {"index": index, "id": f"call_{index}", "type": "function", "function": _function(name, offered[name])}
        for index, name in enumerate(wanted)
    ]


def _function(name: str, schema: dict[str, Any]) -> Part:
    return {"name": name, "arguments": json.dumps(dict.fromkeys(schema.get("required", ()), "x"))}


def _asked(body: dict[str, Any]) -> str:
    """Return the user's last text."""
    texts = [row["content"] for row in body["messages"] if row["role"] == "user"]
    return texts[-1] if texts else ""


def _result(body: dict[str, Any]) -> str:
    results = []
    for row in reversed(body["messages"]):
        if row["role"] != "tool":
            break
        results.append(row["content"])
    return f"The tools say {' and '.join(reversed(results))}." if results else ""


def _text(part: Part) -> str:
    if "tool_calls" in part:
        return "".join(part["tool_calls"][0]["function"].values())
    return "".join(part.values())


def _pieces(part: Part) -> Iterator[Part]:
    """Cut a part into deltas: texts by token, a call into its head and its arguments."""
    if "tool_calls" in part:
        call = part["tool_calls"][0]
        yield {"tool_calls": [call | {"function": {"name": call["function"]["name"], "arguments": ""}}]}
        for piece in tokens(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]}
        return
    ((name, text),) = part.items()
    for piece in tokens(text):
        yield {name: piece}


def _message(parts: list[Part]) -> Part:
    message: Part = {"role": "assistant", "content": None, "reasoning": None}
    for part in parts:
        if "tool_calls" in part:
            message.setdefault("tool_calls", []).append(part["tool_calls"][0])
        else:
            message |= part
    return message


async def _delta(reply: Reply, part: Part) -> None:
    await reply.event({"choices": [{"index": 0, "delta": part, "finish_reason": None}]})
