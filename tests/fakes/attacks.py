"""What a hostile node may answer: each script breaks one rule, or bends one that must hold all the same."""

import asyncio
import itertools
import json
from typing import Any

from portal.gateway.tunnel import frames
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, Script, usage

MESSAGES = [{"role": "user", "content": "What is a pool?"}]
ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
FINISH = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}
DONE = b"data: [DONE]\n\n"
NESTED = b"[" * 100_000 + b"]" * 100_000


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text} | more, "finish_reason": None}]}


def raw(*pieces: bytes, content_type: str = "text/event-stream", **head: Any) -> Script:
    """Answer with these bytes under this head, then END."""

    async def script(reply: Reply) -> None:
        told = {"status": 200, "content_type": content_type, **head}
        await reply.frame(frames.HEAD, json.dumps(told).encode())
        for piece in pieces:
            await reply.write(piece)
        await reply.end()

    return script


def stream_of(*values: object) -> Script:
    """Answer with these events and a clean end."""
    return raw(*map(event, values), DONE)


def control(*sent: tuple[int, bytes]) -> Script:
    """Answer with these frames."""

    async def script(reply: Reply) -> None:
        for kind, payload in sent:
            await reply.frame(kind, payload)

    return script


def for_ever(value: object, *, first: object = ROLE, pause_s: float = 0.0) -> Script:
    """Send one event again and again."""

    async def script(reply: Reply) -> None:
        await reply.begin()
        await reply.event(first)
        while True:
            await reply.event(value)
            await asyncio.sleep(pause_s)

    return script


def dripping(data: bytes, *, pause_s: float, content_type: str = "text/event-stream") -> Script:
    """Send the bytes one by one, and begin anew at the end."""

    async def script(reply: Reply) -> None:
        await reply.begin(content_type=content_type)
        for byte in itertools.cycle(data):
            await reply.write(bytes([byte]))
            await asyncio.sleep(pause_s)

    return script


async def endless_line(reply: Reply) -> None:
    """Send a line of a gigabyte, as far as the gateway takes it."""
    await reply.begin()
    await reply.write(b"data: ")
    for _ in range(1_073_741_824 // 65_536):
        await reply.write(b"x" * 65_536)


async def endless_answer(reply: Reply) -> None:
    """Send a whole answer that has no end."""
    await reply.begin(content_type="application/json")
    await reply.write(b'{"choices": [{"message": {"content": "')
    while True:
        await reply.write(b"x" * 65_536)


async def crumbs(reply: Reply) -> None:
    """Send comments, one byte a frame."""
    await reply.begin()
    for byte in itertools.cycle(b": nothing\n\n"):
        await reply.write(bytes([byte]))


def with_usage(*stated: object, leave_out_choices: bool = False) -> Script:
    """Stream an honest text, then state usage in each of these ways."""

    async def script(reply: Reply) -> None:
        await reply.begin()
        for piece in scripts.tokens(scripts.TEXT):
            await reply.delta(piece)
        await reply.event(FINISH)
        for value in stated:
            await reply.event({"usage": value} if leave_out_choices else {"choices": [], "usage": value})
        await reply.write(DONE)
        await reply.end()

    return script


def counts(count: object) -> dict[str, Any]:
    """Return a usage whose every count is this."""
    return {"prompt_tokens": count, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": count}}


def true_usage(completion: int | None = None) -> dict[str, Any]:
    """Return what an honest engine would state for the suite's prompt and text."""
    return usage(scripts.prompt_tokens({"messages": MESSAGES}), completion or len(scripts.tokens(scripts.TEXT)) + 1)


async def odd_but_right(reply: Reply) -> None:
    """Stream an honest text in every shape that the event stream format allows, cut anywhere."""
    parts = [b": welcome\r\n\r\n", b"retry: 10\r\nid: 7\r\nevent: message\r\n", event(ROLE).replace(b"\n", b"\r\n")]
    for piece in scripts.tokens(scripts.TEXT):
        parts += [b": comment\n", b"event: delta\nid: 9\n", event(delta(piece)), b"\n"]
    closing = {"choices": [], "usage": true_usage()}
    parts += [event(FINISH).replace(b"\n", b"\r"), event(closing), DONE.replace(b"\n", b"\r\n")]
    wire = b"".join(parts)
    await reply.begin(content_type="Text/Event-Stream; charset=utf-8")
    for start in range(0, len(wire), 37):
        await reply.write(wire[start : start + 37])
    await reply.end()


async def wide_characters(reply: Reply) -> None:
    """Stream characters of several bytes, each byte in a frame of its own."""
    values = (ROLE, delta("Grüße "), delta("🚀世界"), FINISH, {"choices": [], "usage": true_usage(12)})
    await reply.begin()
    for byte in b"".join(b"data: " + json.dumps(v, ensure_ascii=False).encode() + b"\n\n" for v in values) + DONE:
        await reply.write(bytes([byte]))
    await reply.end()


async def telling(reply: Reply) -> None:
    """Answer honestly, with everything an engine says of itself beside it."""
    own: dict[str, Any] = {
        "id": "theirs",
        "model": "secret-model",
        "system_fingerprint": "fp_secret",
        "prompt_token_ids": [1, 2],
        "kv_transfer_params": {"remote_host": "10.0.0.7"},
        "prompt_logprobs": [None],
        "service_tier": "theirs",
    }
    await reply.begin()
    for piece in scripts.tokens(scripts.TEXT):
        choice = {"index": 0, "delta": {"content": piece, "secret": 1}, "finish_reason": None, "token_ids": [3]}
        await reply.event({**own, "choices": [{**choice, "stop_reason": None, "secret": 2}]})
    last = {"index": 0, "delta": {"content": ""}, "finish_reason": "cosmic_ray", "stop_reason": 151_645}
    await reply.event({**own, "choices": [last]})
    await reply.event({**own, "choices": [], "usage": true_usage()})
    await reply.write(DONE)
    await reply.end()
