"""What a scripted node does with prompts: it continues them or makes vectors of them, with an engine's counts."""

import base64
import math
import struct
from typing import Any

from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, Script

TEXT = " and so the pool grew."
LENGTH = 8


def prompts_of(body: dict[str, Any]) -> list[Any]:
    """Return the prompts, each a text or a list of ids."""
    value = body.get("prompt", body.get("input"))
    is_many = isinstance(value, list) and not isinstance(value[0], int)
    return list(value) if is_many else [value]


def prompt_tokens(body: dict[str, Any]) -> int:
    """Count all prompts: ids are tokens already."""
    encode = scripts.tokenizer().encode
    return sum(len(one) if isinstance(one, list) else len(encode(one).ids) for one in prompts_of(body))


def usage(prompt: int, completion: int, **details: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
    return counts | {"prompt_tokens_details": details or None, "completion_tokens_details": None}


def honest(text: str = TEXT) -> Script:
    """Continue each prompt with the text, or make a vector of it."""

    async def script(reply: Reply) -> None:
        if reply.head["path"] == "/v1/embeddings":
            await reply.whole(embedded(reply.body))
        elif reply.body.get("stream"):
            await _stream(reply, text)
        else:
            await reply.whole(continued(reply.body, text))

    return script


def continued(body: dict[str, Any], text: str = TEXT) -> dict[str, Any]:
    """Return the whole answer of text completions."""
    pieces = scripts.tokens(text)[: body["max_tokens"]]
    count = len(prompts_of(body)) * body.get("n", 1)
    choices = [
        {"index": index, "text": "".join(pieces), "finish_reason": "stop", "logprobs": logprobs(pieces, body)}
        for index in range(count)
    ]
    return {"id": "theirs", "choices": choices, "usage": usage(prompt_tokens(body), count * (len(pieces) + 1))}


def logprobs(pieces: list[str], body: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an engine says of each token where it was asked."""
    if body.get("logprobs") is None:
        return None
    numbers = [-0.5] * len(pieces)
    tops = [{piece: -0.5} for piece in pieces]
    return {"tokens": pieces, "token_logprobs": numbers, "text_offset": [0] * len(pieces), "top_logprobs": tops}


def embedded(body: dict[str, Any], length: int = LENGTH) -> dict[str, Any]:
    """Return one unit vector an input."""
    numbers = [1 / math.sqrt(length)] * length
    packed = base64.b64encode(struct.pack(f"<{length}f", *numbers)).decode()
    vector = packed if body.get("encoding_format") == "base64" else numbers
    rows = [{"index": index, "object": "embedding", "embedding": vector} for index in range(len(prompts_of(body)))]
    return {"id": "theirs", "object": "list", "model": "secret", "data": rows, "usage": usage(prompt_tokens(body), 0)}


async def _stream(reply: Reply, text: str) -> None:
    pieces = scripts.tokens(text)[: reply.body["max_tokens"]]
    prompt, count = prompt_tokens(reply.body), len(prompts_of(reply.body)) * reply.body.get("n", 1)
    await reply.begin()
    for number, piece in enumerate(pieces, start=1):
        for index in range(count):
            choice = {"index": index, "text": piece, "finish_reason": None, "logprobs": logprobs([piece], reply.body)}
            await reply.event({"choices": [choice], "usage": usage(prompt, (number - 1) * count + index + 1)})
    for index in range(count):
        await reply.event({"choices": [{"index": index, "text": "", "finish_reason": "stop", "logprobs": None}]})
    await reply.event({"choices": [], "usage": usage(prompt, count * (len(pieces) + 1), cached_tokens=0)})
    await reply.write(b"data: [DONE]\n\n")
    await reply.end()
