"""Customers who ask all the time, of whichever gateway they find, and keep a journal of what they got."""

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any, Final

import aiohttp

from tests.integration.gateway.pool import MODEL

_chance = SystemRandom()
_numbers = itertools.count(1)
_PROMPTS: Final = ("Go on.", "Tell me of the sea, and of the ships on it.", "Why?")


@dataclass
class Asked:
    """One request as its customer saw it. `name` went along as x-request-id."""

    name: str
    kind: str
    status: int = 0
    request_id: str = ""
    text: str = ""
    is_whole: bool = False
    error: str = ""
    usage: dict[str, Any] = field(default_factory=dict)


class Customers:
    """Some customers in a thread of their own."""

    def __init__(
        self,
        *,
        urls: Callable[[], Sequence[str]],
        keys: Sequence[str],
        count: int,
        kinds: Sequence[str],
        pause_s: float,
    ) -> None:
        self.journal: list[Asked] = []
        self._urls = urls
        self._keys = keys
        self._count = count
        self._kinds = kinds
        self._pause_s = pause_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)

    def start(self) -> "Customers":
        self._thread.start()
        return self

    def stop(self) -> list[Asked]:
        """Let running requests end; return the journal."""
        self._is_over.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "every request ends"
        return self.journal

    async def _all(self) -> None:
        timeout = aiohttp.ClientTimeout(total=60)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            await asyncio.gather(*[self._one(session) for _ in range(self._count)])

    async def _one(self, session: aiohttp.ClientSession) -> None:
        while not self._is_over.is_set():
            asked = Asked(name=f"customer-{next(_numbers)}", kind=_chance.choice(self._kinds))
            self.journal.append(asked)
            try:
                await _ask(session, _chance.choice(self._urls()), _chance.choice(self._keys), asked)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                asked.error = asked.error or type(error).__name__
                await asyncio.sleep(0.05)
            await asyncio.sleep(_chance.uniform(0, 2 * self._pause_s))


async def _ask(session: aiohttp.ClientSession, url: str, key: str, asked: Asked) -> None:
    headers = {"authorization": f"Bearer {key}", "x-request-id": asked.name}
    async with session.post(f"{url}/v1/chat/completions", json=_body(asked.kind), headers=headers) as answer:
        asked.status = answer.status
        asked.request_id = answer.headers["x-request-id"]
        if answer.status != 200:
            asked.error = json.loads(await answer.read())["error"]["code"]
        elif asked.kind == "plain":
            whole = json.loads(await answer.read())
            asked.text, asked.usage = whole["choices"][0]["message"]["content"], whole["usage"]
            asked.is_whole = True
        else:
            await _read_stream(answer, asked)


async def _read_stream(answer: aiohttp.ClientResponse, asked: Asked) -> None:
    leaves_after = _chance.randint(1, 12) if asked.kind == "abort" else 10**9
    pieces = 0
    async for line in answer.content:
        if line == b"data: [DONE]\n":
            asked.is_whole = True
        elif line.startswith(b"data: "):
            event = json.loads(line[6:])
            if "error" in event:
                asked.error = event["error"]["code"]
                continue
            asked.usage = event.get("usage") or asked.usage
            for choice in event["choices"]:
                asked.text += choice["delta"].get("content") or ""
            pieces += 1
            if pieces >= leaves_after:
                answer.close()
                return


def _body(kind: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": _chance.choice(_PROMPTS)}],
        "max_tokens": _chance.randint(4, 60),
    }
    if kind == "bad":
        return body | {"max_tokens": -1}
    if kind != "plain":
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body
