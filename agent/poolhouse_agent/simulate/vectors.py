"""Embeddings in vLLM's shapes: a unit vector a text, the same for the same tokens."""

import base64
import hashlib
import math
import secrets
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poolhouse_agent.simulate import shapes
from poolhouse_agent.simulate.answer import Terms
from poolhouse_agent.simulate.behaviours import Fault


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """What the simulator honours of an embedding request."""

    inputs: list[list[int]]
    is_base64: bool
    dimensions: int


def answer(wanted: VectorRequest, terms: Terms) -> dict[str, Any]:
    """The whole answer; an engine that is to say nothing gives no vectors."""
    engine = terms.engine
    count = sum(map(len, wanted.inputs))
    engine.counters.prompt_tokens += count
    engine.counters.finished["stop"] += len(wanted.inputs)
    inputs = [] if terms.behaviour.fault is Fault.EMPTY else wanted.inputs
    rows = [
        {"index": index, "object": "embedding", "embedding": _embedding(vector(ids, wanted.dimensions), wanted)}
        for index, ids in enumerate(inputs)
    ]
    counts = shapes.usage(terms.behaviour, prompt=count, cached=0, completion=0)
    if isinstance(counts, dict):
        counts |= {"prompt_tokens_details": None, "completion_tokens_details": None}
    return {
        "id": f"embd-{secrets.token_hex(8)}",
        "object": "list",
        "created": int(time.time()),
        "model": engine.model,
        "data": rows,
        "usage": counts,
    }


def vector(ids: Sequence[int], length: int) -> list[float]:
    """A unit vector of 32-bit floats, made of nothing but the token ids."""
    seed = ",".join(map(str, ids)).encode()
    blocks = b"".join(hashlib.sha256(seed + b"|%d" % block).digest() for block in range(length // 16 + 1))
    numbers = [(left * 256 + right) / 32_768 - 1 for left, right in zip(blocks[::2], blocks[1::2], strict=True)]
    norm = math.sqrt(sum(number * number for number in numbers[:length])) or 1.0
    return [struct.unpack("<f", struct.pack("<f", number / norm))[0] for number in numbers[:length]]


def _embedding(numbers: list[float], wanted: VectorRequest) -> list[float] | str:
    if not wanted.is_base64:
        return numbers
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
