"""An agent opens no port; its engine's lies on loopback and answers nobody without the key."""

import asyncio
import http.client
import json
import os
from pathlib import Path

from poolhouse_agent.runtime import Agent

from tests.fakes.pool import Pool

LISTEN = "0A"
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}  # as /proc/net writes 127.0.0.1 and ::1
ASKED = [
    ("GET", "/"), ("GET", "/health"), ("GET", "/metrics"), ("GET", "/version"), ("GET", "/v1/models"),
    ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/v1/embeddings"), ("POST", "/tokenize"),
    ("POST", "/invocations"), ("DELETE", "/v1/models"), ("GET", "/../etc/passwd"),
]  # fmt: skip


def listening(pid: int) -> list[tuple[str, int]]:
    """Address and port of every listening TCP socket of the process."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if entry.is_symlink() and (name := entry.readlink().name).startswith("socket:["):
            inodes.add(name[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == LISTEN and words[9] in inodes:
                address, port = words[1].split(":")
                found.append((address, int(port, 16)))
    return found


def started_by(pid: int) -> set[int]:
    """Processes that are of the agent: its children, and hosts that it detached with all that they started."""
    parents, marked = {}, set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                environ = (folder / "environ").read_bytes()
            except OSError:
                continue
            parents[int(folder.name)] = int(stat[1])
            if b"POOLHOUSE_ENGINE_MARK=" in environ:
                marked.add(int(folder.name))
    found, wave = set(), {pid}
    while wave := {child for child, parent in parents.items() if parent in wave} - found:
        found |= wave
    return found | marked


def ask(port: int, method: str, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body=json.dumps({}) if method == "POST" else None, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


async def test_the_agent_itself_listens_nowhere(serving: Agent, pool: Pool) -> None:
    mine = {port for _, port in listening(os.getpid())}
    portals = {int(pool.server.rpartition(":")[2])}

    assert mine <= portals  # the pool that these tests play runs in this process too


async def test_an_engines_port_is_on_loopback_and_asks_for_the_key(serving: Agent) -> None:
    target = serving.deployments.route("acme/demo")
    port = int(target.base_url.rpartition(":")[2])
    places = [place for pid in started_by(os.getpid()) for place in listening(pid) if place[1] == port]

    assert places
    assert {address for address, _ in places} <= LOOPBACK
    for method, path in ASKED:
        assert await asyncio.to_thread(ask, port, method, path) == 401, (method, path)
        wrong = {"authorization": "Bearer guessed"}
        assert await asyncio.to_thread(ask, port, method, path, **wrong) == 401, (method, path)
    assert await asyncio.to_thread(ask, port, "GET", "/v1/models", **target.headers) == 200
