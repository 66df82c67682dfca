"""What a scripted node may do with a request."""

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tests.fakes.scripted_node import Reply, Script, usage

TEXT = "The pool answers in plain words, one token at a time."
_TOKENIZER = Path(__file__).parents[2] / "portal" / "sandbox" / "demo_model" / "tokenizer.json"


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(_TOKENIZER))


def tokens(text: str) -> list[str]:
    """Return the pieces of text that a node with the pool's tokenizer would stream."""
    encoded = tokenizer().encode(text, add_special_tokens=False)
    return [text[start:end] for start, end in encoded.offsets]


def prompt_tokens(body: dict[str, Any]) -> int:
    """Count the prompt as the engine would."""
    text = "".join(f"<|im_start|>{row['role']}\n{row['content']}<|im_end|>\n" for row in body["messages"])
    return len(tokenizer().encode(text + "<|im_start|>assistant\n", add_special_tokens=False).ids)


def honest(text: str = TEXT, *, pause_s: float = 0.0) -> Script:
    """Answer with the text, token by token or whole, with true counts."""

    async def script(reply: Reply) -> None:
        pieces = tokens(text)[: reply.body["max_tokens"]]
        prompt, count = prompt_tokens(reply.body), len(pieces) + 1
        if not reply.body.get("stream"):
            await asyncio.sleep(pause_s * len(pieces))
            await reply.whole(answer("".join(pieces), prompt=prompt, completion=count))
            return
        await reply.begin()
        await reply.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for number, piece in enumerate(pieces, start=1):
            await reply.delta(piece, usage=usage(prompt, number))
            if pause_s:
                await asyncio.sleep(pause_s)
        await reply.done(prompt=prompt, completion=count)

    return script


def answer(text: str, *, prompt: int, completion: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "reasoning": None, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "stop_reason": None, "token_ids": None}
    return {"id": "theirs", "model": "secret", "choices": [choice], "usage": usage(prompt, completion)}


def refusing(code: str) -> Script:
    """Answer every request with FAIL."""

    async def script(reply: Reply) -> None:
        await reply.fail(code)

    return script


def engine_error(status: int, body: dict[str, Any]) -> Script:
    """Answer every request with an engine's error."""

    async def script(reply: Reply) -> None:
        await reply.whole(body, status=status)

    return script


async def silent(reply: Reply) -> None:
    """Never answer."""
    await asyncio.sleep(3_600)


async def silent_after_head(reply: Reply) -> None:
    """Begin and then say nothing."""
    await reply.begin()
    await reply.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    await asyncio.sleep(3_600)


async def silent_after_token(reply: Reply) -> None:
    """Say one word and then nothing."""
    await reply.begin()
    await reply.delta("Hello")
    await asyncio.sleep(3_600)


async def empty(reply: Reply) -> None:
    """End without a token of text."""
    if not reply.body.get("stream"):
        await reply.whole(answer("", prompt=5, completion=1))
        return
    await reply.begin()
    await reply.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    await reply.done(prompt=5, completion=1)


def dying(after: int, *, how: str = "fail") -> Script:
    """Stream some tokens, then break: by FAIL, by an error event, by an end without [DONE], or by nonsense."""

    async def script(reply: Reply) -> None:
        await reply.begin()
        for piece in tokens(TEXT)[:after]:
            await reply.delta(piece)
        if how == "fail":
            await reply.fail("engine_died")
        elif how == "error_event":
            await reply.event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
            await reply.write(b"data: [DONE]\n\n")
            await reply.end()
        elif how == "truncated":
            await reply.end()
        elif how == "nonsense":
            await reply.write(b"data: {not json\n\n")
            await reply.end()

    return script


async def endless(reply: Reply) -> None:
    """Stream without an end, whatever the maximum."""
    await reply.begin()
    while True:
        await reply.delta("more ")


async def bomb(reply: Reply) -> None:
    """Stream one event that never ends."""
    await reply.begin()
    await reply.write(b"data: ")
    while True:
        await reply.write(b"x" * 60_000)
