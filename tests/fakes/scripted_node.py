"""A node of the wire protocol whose answers a test scripts: honest, slow, cheating or broken.

It runs in a thread with a loop of its own, so that synchronous clients can be used against the gateway.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from portal.gateway.tunnel import frames

Script = Callable[["Reply"], Awaitable[None]]


@dataclass
class Reply:
    """One request as the node sees it, and how it answers."""

    stream: int
    head: dict[str, Any]
    body: dict[str, Any]
    _send: Callable[[bytes], Awaitable[None]]
    canceled: asyncio.Event = field(default_factory=asyncio.Event)
    credit: int = frames.WINDOW_BYTES
    widened: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more is sent for it: it ended, or the gateway canceled it."""
        return self.has_ended or self.canceled.is_set()

    async def begin(self, status: int = 200, content_type: str = "text/event-stream") -> None:
        await self.frame(frames.HEAD, json.dumps({"status": status, "content_type": content_type}).encode())

    async def frame(self, kind: int, payload: bytes = b"") -> None:
        self.has_ended = kind in {frames.END, frames.FAIL}
        await self._send(frames.pack(kind, self.stream, payload))

    async def write(self, data: bytes) -> None:
        """Send DATA within the window, as an honest agent does."""
        while data:
            while self.credit <= 0:
                self.widened.clear()
                await self.widened.wait()
            piece, data = data[: self.credit], data[self.credit :]
            self.credit -= len(piece)
            await self.frame(frames.DATA, piece)

    async def event(self, value: object) -> None:
        await self.write(b"data: " + json.dumps(value).encode() + b"\n\n")

    async def delta(self, text: str, **more: Any) -> None:
        await self.event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more})

    async def done(self, *, prompt: int, completion: int, reason: str = "stop") -> None:
        """End a stream as vLLM does: the finish, the usage, [DONE], END."""
        await self.event({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": reason}]})
        await self.event({"choices": [], "usage": usage(prompt, completion)})
        await self.write(b"data: [DONE]\n\n")
        await self.end()

    async def whole(self, value: dict[str, Any], status: int = 200) -> None:
        """Answer in one piece."""
        await self.begin(status, "application/json")
        await self.write(json.dumps(value).encode())
        await self.end()

    async def end(self) -> None:
        await self.frame(frames.END, b"{}")

    async def fail(self, code: str) -> None:
        await self.frame(frames.FAIL, json.dumps({"code": code, "message": "scripted"}).encode())


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


class ScriptedNode:
    """Connects with a session token and answers every request with `script`."""

    def __init__(
        self, *, url: str, token: str, model: str, script: Script, max_concurrency: int = 32,
        hello: bytes = b"", max_body_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.script = script
        self.replies: list[Reply] = []
        self.is_away = threading.Event()
        self.close_code: int | None = None
        self.is_deaf = False
        self._url = url
        self.token = token
        self.was_sent_away = threading.Event()
        self._first = hello
        self._more = {} if max_body_bytes is None else {"max_body_bytes": max_body_bytes}
        self._unfinished: dict[int, bytes] = {}
        self._hello = {"deployments": [{"model": model, "state": "ready", "max_concurrency": max_concurrency}]}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._http: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_stream: dict[int, Reply] = {}

    def start(self) -> "ScriptedNode":
        self._thread.start()
        self.call(self._connect())
        return self

    def stop(self) -> None:
        if self._loop.is_running():
            self.call(self._disconnect())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, Any], timeout_s: float = 10.0) -> Any:
        """Run a coroutine in the node's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def send(self, message: bytes) -> None:
        """Send raw bytes, whatever they are."""
        assert self._socket is not None
        self.call(self._socket.send_bytes(message))

    def flood(self, messages: list[bytes]) -> None:
        """Send raw messages until the gateway has had enough."""

        async def send(socket: aiohttp.ClientWebSocketResponse) -> None:
            for message in messages:
                await socket.send_bytes(message)

        self.attack(send)

    def attack(self, work: Callable[[aiohttp.ClientWebSocketResponse], Awaitable[None]]) -> None:
        """Do something to the socket; that it is closed meanwhile is no failure."""

        async def run() -> None:
            assert self._socket is not None
            with contextlib.suppress(ConnectionError):
                await work(self._socket)

        self.call(run())

    def wait_closed(self, timeout_s: float = 5.0) -> int | None:
        """Return the close code once the gateway has closed the tunnel."""
        assert self.is_away.wait(timeout_s), "the tunnel is still open"
        return self.close_code

    async def _connect(self) -> None:
        self._http = aiohttp.ClientSession()
        headers = {"authorization": f"Bearer {self.token}"}
        self._socket = await self._http.ws_connect(self._url, headers=headers, max_msg_size=0)
        hello = {"protocol": 1, "agent_version": "scripted", **self._more, **self._hello}
        await self._socket.send_bytes(self._first or frames.pack(frames.HELLO, 0, json.dumps(hello).encode()))
        self._keep(self._read())

    async def _disconnect(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()
            # What a flood left unwritten would keep the connection open beyond the loop that could close it.
            transport = self._socket._writer.transport
            if transport is not None and transport.get_write_buffer_size():
                transport.abort()
        if self._http is not None:
            await self._http.close()
        await asyncio.sleep(0.01)

    async def _read(self) -> None:
        assert self._socket is not None
        async for message in self._socket:
            self._take(*frames.unpack(message.data))
        self.close_code = self._socket.close_code
        self.is_away.set()

    def _take(self, kind: int, stream: int, payload: bytes) -> None:
        assert self._socket is not None
        if kind in {frames.REQUEST, frames.BODY}:
            payload = self._unfinished.pop(stream, b"") + payload
            head, _, body = payload.partition(b"\n")
            if len(body) < json.loads(head).get("body_bytes", 0):
                self._unfinished[stream] = payload
                return
            reply = Reply(stream, json.loads(head), json.loads(body), self._socket.send_bytes)
            self.replies.append(reply)
            self._by_stream[stream] = reply
            self._keep(self._answer(reply))
        elif kind == frames.CANCEL and not self.is_deaf:
            self._by_stream[stream].canceled.set()
        elif kind == frames.GOAWAY:
            self.was_sent_away.set()
        elif kind == frames.WINDOW:
            reply = self._by_stream[stream]
            reply.credit += frames.unpack_window(payload)
            reply.widened.set()

    async def _answer(self, reply: Reply) -> None:
        working = asyncio.ensure_future(self.script(reply))
        leaving = asyncio.ensure_future(reply.canceled.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            working.cancel()
            raise
        finally:
            leaving.cancel()
        if not working.done():
            working.cancel()
            await reply.fail("canceled")
        elif working.exception() is not None and not self.is_away.is_set():
            working.result()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
