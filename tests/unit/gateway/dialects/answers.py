"""Deltas of a chat, and events as a client reads them."""

import json
from typing import Any
from uuid import UUID

from portal.gateway.contracts import Settled
from portal.gateway.dialects.base import Stamp

REQUEST_ID = UUID(int=5)
STAMP = Stamp(REQUEST_ID, 1_700_000_000, "usd")
BILL = Settled("completed", 10, 4, 7, "counted", 12_345, 1)


def delta(finish: str | None = None, *, stop: str | None = None, **part: Any) -> list[dict[str, Any]]:
    """Return one chunk's choices, as they are rebuilt from a node's."""
    choice = {"index": 0, "delta": part, "logprobs": part.pop("logprobs", None), "finish_reason": finish}
    return [choice | ({"stop_reason": stop} if stop is not None else {})]


def message(finish: str = "stop", *, stop: str | None = None, **part: Any) -> list[dict[str, Any]]:
    """Return a whole answer's choices."""
    full = {"role": "assistant", "content": None, "refusal": None} | part
    choice = {"index": 0, "message": full, "logprobs": part.pop("logprobs", None), "finish_reason": finish}
    return [choice | ({"stop_reason": stop} if stop is not None else {})]


def call(index: int, arguments: str | None = None, *, name: str | None = None) -> dict[str, Any]:
    """Return a piece of a tool call: its first one has a name and an id."""
    function = {key: text for key, text in (("name", name), ("arguments", arguments)) if text is not None}
    return {"index": index, "function": function} | ({"id": f"call_{index}", "type": "function"} if name else {})


def events(raw: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Return each event's name and data; what is not an event of two lines fails."""
    found = []
    for block in raw.decode().split("\n\n")[:-1]:
        first, second = block.split("\n")
        found.append((first.removeprefix("event: "), json.loads(second.removeprefix("data: "))))
    return found
