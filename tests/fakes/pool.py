"""The far side of the agent: a portal and a gateway in one in-process server, speaking docs/agent-protocol.md."""

import asyncio
import base64
import contextlib
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

REQUEST, CANCEL, WINDOW, GOAWAY = 0x01, 0x02, 0x03, 0x04
HELLO, HEAD, DATA, END, FAIL, STATUS = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Got:
    """One frame from the agent and when it came."""

    type: int
    stream: int
    payload: bytes
    at: float

    @property
    def json(self) -> Any:
        """The payload as JSON."""
        return json.loads(self.payload)


@dataclass(slots=True)
class Answer:
    """All that came for one stream."""

    frames: list[Got] = field(default_factory=list)

    @property
    def head(self) -> Any:
        """The HEAD, or None."""
        return next((frame.json for frame in self.frames if frame.type == HEAD), None)

    @property
    def body(self) -> bytes:
        """All DATA joined."""
        return b"".join(frame.payload for frame in self.frames if frame.type == DATA)

    @property
    def events(self) -> list[Any]:
        """The events' JSON; `[DONE]` as text."""
        lines = [line[6:] for line in self.body.decode().split("\n\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    @property
    def failure(self) -> Any:
        """The FAIL, or None."""
        return next((frame.json for frame in self.frames if frame.type == FAIL), None)

    @property
    def is_ended(self) -> bool:
        """Whether END or FAIL came."""
        return any(frame.type in {END, FAIL} for frame in self.frames)

    @property
    def text(self) -> str:
        """The content of a streamed or plain answer."""
        if self.body.startswith(b"{"):
            return str(json.loads(self.body)["choices"][0]["message"]["content"])
        chunks = [event for event in self.events if event != "[DONE]"]
        return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


class Tunnel:
    """The gateway's end of one tunnel."""

    def __init__(self, socket: web.WebSocketResponse, generation: int) -> None:
        self.socket = socket
        self.generation = generation
        self.answers: dict[int, Answer] = {}
        self.statuses: list[Any] = []
        self.hello: Any = None
        self.close_code: int | None = None
        self._changed = asyncio.Condition()
        self._last = 0

    async def read(self) -> None:
        """Collect frames until the socket closes."""
        loop = asyncio.get_running_loop()
        async for message in self.socket:
            assert message.type is WSMsgType.BINARY
            raw = message.data
            got = Got(raw[0], int.from_bytes(raw[1:5], "big"), raw[5:], loop.time())
            async with self._changed:
                self._note(got)
                self._changed.notify_all()
        self.close_code = self.socket.close_code
        async with self._changed:
            self._changed.notify_all()

    def _note(self, got: Got) -> None:
        if got.type == HELLO:
            self.hello = got.json
            self.statuses.append(got.json["deployments"])
        elif got.type == STATUS:
            self.statuses.append(got.json["deployments"])
        else:
            self.answers[got.stream].frames.append(got)

    async def until(self, condition: Any, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until `condition()` holds."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)

    async def send(self, frame_type: int, stream: int, payload: bytes = b"") -> None:
        """Send one frame."""
        await self.socket.send_bytes(bytes((frame_type,)) + stream.to_bytes(4, "big") + payload)

    async def begin(
        self, body: Any, *, model: str = "acme/demo", path: str = "/v1/chat/completions", **head: Any
    ) -> int:
        """Open a stream; return its number."""
        self._last += 1
        self.answers[self._last] = Answer()
        line = {"method": "POST", "path": path, "model": model, "attempt": f"test/{self._last}", "nonce": "00", **head}
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.send(REQUEST, self._last, json.dumps(line).encode() + b"\n" + raw)
        return self._last

    async def finish(self, stream: int, timeout_s: float = TIMEOUT_S) -> Answer:
        """Wait for END or FAIL, widening the window as bytes come."""
        answer, granted = self.answers[stream], 0
        async with asyncio.timeout(timeout_s):
            while not answer.is_ended:
                seen = len(answer.frames)
                # Before the wait: what came until now may have used up the window.
                if (more := len(answer.body) - granted) > 100_000:
                    granted += more
                    await self.send(WINDOW, stream, more.to_bytes(4, "big"))
                await self.until(lambda: len(answer.frames) > seen or self.socket.closed, timeout_s)  # noqa: B023
                assert not self.socket.closed or answer.is_ended, "the tunnel closed"
        return answer

    async def ask(self, body: Any, timeout_s: float = TIMEOUT_S, **options: str) -> Answer:
        """Open a stream and wait for its end."""
        return await self.finish(await self.begin(body, **options), timeout_s)

    async def until_ready(self, model: str = "acme/demo") -> None:
        """Wait until the agent says that the model is ready."""
        await self.until(
            lambda: self.statuses and {"model": model, "state": "ready"}.items() <= self._entry(model).items()
        )

    def _entry(self, model: str) -> dict[str, Any]:
        return next((one for one in self.statuses[-1] if one["model"] == model), {})


def desired(**changes: Any) -> dict[str, Any]:
    """A deployment as the portal would want it."""
    return {
        "deployment": "dep_1", "model": "acme/demo", "engine": "simulate", "desired": "running", "artefact_digest": "",
        "context_tokens": 4096, "max_output_tokens": 1024, "max_concurrency": 8, "dtype": "", "quantization": "",
        "engine_args": {}, "settings": {"tokens_per_second": 2000}, **changes,
    }  # fmt: skip


class Pool:
    """One pool with one token. Change its attributes to change how it answers."""

    def __init__(self) -> None:
        self.token = "ph-enrol-test"
        self.server = ""
        self.node = "node_test"
        self.public_key: str | None = None
        self.enrolments: list[Any] = []
        self.heartbeats: list[Any] = []
        self.sessions: list[Any] = []
        self.desired: list[dict[str, Any]] = [desired()]
        self.messages: list[dict[str, str]] = []
        self.extra: dict[str, Any] = {}
        self.check_round: dict[str, Any] | None = None
        self.reports: list[Any] = []
        self.verdicts: list[dict[str, Any]] = []
        self.echoes = asyncio.Event()  # cleared: whoever measures the network waits
        self.echoes.set()
        self.echo_came = asyncio.Event()
        self.heartbeat_s = 1
        self.session_s = 600
        self.tunnel_url = ""
        self.tunnels: list[Tunnel] = []
        self.refuse: dict[str, tuple[int, str]] = {}
        self.raw: dict[str, web.Response] = {}
        self.weights: dict[str, Any] | None = None
        self.generation = 0
        self.countersign: Callable[[Any], dict[str, Any]] | None = None  # None: a pool that knows no receipts
        self.claims: list[Any] = []
        self._nonces: set[str] = set()
        self._bearers: set[str] = set()
        self._tunnel_came = asyncio.Event()

    def application(self) -> web.Application:
        """The aiohttp application."""
        application = web.Application(middlewares=[self._refusing])
        application.add_routes([
            web.post("/agent/v1/enrol", self._enrol),
            web.post("/agent/v1/session/challenge", self._challenge),
            web.post("/agent/v1/session", self._session),
            web.post("/agent/v1/heartbeat", self._heartbeat),
            web.post("/agent/v1/weights", self._weights),
            web.post("/agent/v1/checks/report", self._report),
            web.post("/agent/v1/checks/echo", self._echo),
            web.post("/agent/v1/receipts", self._receipts),
            web.get("/agent/v1/tunnel", self._tunnel),
        ])  # fmt: skip
        return application

    async def tunnel(self, after: int = 0) -> Tunnel:
        """Wait for the tunnel after `after` others."""
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.tunnels) <= after or self.tunnels[after].hello is None:
                await asyncio.sleep(0.02)
        return self.tunnels[after]

    async def report(self, condition: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Wait for a report on a round of checks that fulfils `condition`."""
        async with asyncio.timeout(timeout_s):
            while True:
                for report in self.reports:
                    if condition(report):
                        return report
                await asyncio.sleep(0.02)

    async def heartbeat(self, condition: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Wait for a heartbeat from now on that fulfils `condition`."""
        first = len(self.heartbeats)
        async with asyncio.timeout(timeout_s):
            while True:
                for beat in self.heartbeats[first:]:
                    if condition(beat):
                        return beat
                await asyncio.sleep(0.02)

    @web.middleware
    async def _refusing(self, request: web.Request, handler: Any) -> web.StreamResponse:
        name = request.path.removeprefix("/agent/v1/")
        if name in self.raw:
            raw = self.raw[name]  # an answer can be sent once
            return web.Response(body=raw.body, status=raw.status, headers=raw.headers)
        if name in self.refuse:
            return _error(*self.refuse[name])
        response: web.StreamResponse = await handler(request)
        return response

    async def _enrol(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.enrolments.append(body)
        if request.headers["authorization"] != f"Bearer {self.token}":
            return _error(401, "enrolment_token_invalid")
        if self.public_key not in {None, body["public_key"]}:
            return _error(409, "enrolment_token_used")
        is_new, self.public_key = self.public_key is None, body["public_key"]
        answer = {
            "node": self.node,
            "provider": "prov_test",
            "heartbeat_s": 15,
            "server_time": "2026-01-01T00:00:00+00:00",
        }
        return web.json_response(answer, status=201 if is_new else 200)

    async def _challenge(self, request: web.Request) -> web.Response:
        assert await request.json() == {"node": self.node}
        nonce = secrets.token_hex(16)
        self._nonces.add(nonce)
        return web.json_response({"nonce": nonce, "expires_in_s": 60, "server_time": "2026-01-01T00:00:00+00:00"})

    async def _session(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["nonce"] not in self._nonces:
            return _error(401, "nonce_invalid")
        self._nonces.discard(body["nonce"])
        if not self._is_signed(body):
            return _error(401, "signature_invalid")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        is_renewal = bearer in self._bearers
        if not is_renewal:
            self.generation += 1
        token = f"ph-session-{secrets.token_hex(8)}"
        self._bearers.add(token)
        self.sessions.append({**body, "is_renewal": is_renewal})
        return web.json_response({
            "token": token, "expires_in_s": self.session_s, "generation": self.generation,
            "tunnel_url": self.tunnel_url or self.server.replace("http", "ws") + "/agent/v1/tunnel",
            "heartbeat_s": self.heartbeat_s, "server_time": "2026-01-01T00:00:00+00:00",
        })  # fmt: skip

    def _is_signed(self, body: Any) -> bool:
        text = "\n".join(("poolhouse-session-v1", body["nonce"], self.node, self.server, "1"))
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(self.public_key or ""))
        try:
            key.verify(base64.b64decode(body["signature"]), text.encode())
        except InvalidSignature:
            return False
        return body["public_url"] == self.server

    async def _heartbeat(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self._bearers:
            return _error(401, "session_expired")
        self.heartbeats.append(await request.json())
        return web.json_response({
            "server_time": "2026-01-01T00:00:00+00:00", "state": "serving", "heartbeat_s": self.heartbeat_s,
            "desired": self.desired, "messages": self.messages,
            **({"check_round": self.check_round} if self.check_round else {}), **self.extra,
        })  # fmt: skip

    async def _report(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.reports.append(body)
        if self.check_round is None or body["round"] != self.check_round["round"]:
            return _error(404, "check_round_unknown")
        if body["state"] != "running":
            self.check_round = None
        return web.json_response({"state": body["state"], "verdicts": self.verdicts})

    async def _echo(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.echo_came.set()
        await self.echoes.wait()
        return web.json_response({"padding": "0" * body["answer_characters"]})

    async def _receipts(self, request: web.Request) -> web.Response:
        if self.countersign is None:
            return _error(404, "not_found")
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self._bearers:
            return _error(401, "session_expired")
        body = await request.json()
        self.claims += body["claims"]
        return web.json_response(self.countersign(body["claims"]))

    async def _weights(self, request: web.Request) -> web.Response:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self._bearers:
            return _error(401, "session_expired")
        return _error(404, "weights_unknown") if self.weights is None else web.json_response(self.weights)

    async def _tunnel(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self._bearers:
            return _error(401, "session_expired")
        socket = web.WebSocketResponse(max_msg_size=4 << 20)
        await socket.prepare(request)
        tunnel = Tunnel(socket, self.generation)
        self.tunnels.append(tunnel)
        await tunnel.read()
        return socket


def _error(status: int, code: str) -> web.Response:
    error = {"message": code.replace("_", " "), "type": "x", "param": None, "code": code, "fix": f"fix of {code}"}
    return web.json_response({"error": error}, status=status)


@contextlib.asynccontextmanager
async def running_pool(*, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Pool]:
    """A pool on a free port of an address of this machine."""
    pool = Pool()
    runner = web.AppRunner(pool.application(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=tls)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]  the port the kernel chose
    pool.server = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield pool
    finally:
        for tunnel in pool.tunnels:
            await tunnel.socket.close()
        await runner.cleanup()
