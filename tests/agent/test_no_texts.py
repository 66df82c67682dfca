"""What customers write and engines answer is in no log, no file of the state folder and no support bundle."""

import asyncio
import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

from tests.agent.test_command_line import Agent, agent, joined  # noqa: F401  the fixture `agent`
from tests.fakes.pool import Pool, Tunnel

MARKER = "zebrafinch-4471"
MESSAGES = [{"role": "user", "content": f"{MARKER} says hello"}]
# Texts in every place where a customer can put one, good requests and such as are refused on the way.
REQUESTS: list[tuple[str, Any]] = [
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 5}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 5, "stream": True}),
    ("/v1/chat/completions", {"messages": MESSAGES, MARKER: 1}),
    ("/v1/chat/completions", {"messages": MESSAGES, "chat_template_kwargs": {MARKER: True}}),
    ("/v1/chat/completions", {"messages": [{"role": MARKER, "content": MARKER}]}),
    ("/v1/chat/completions", {"messages": MESSAGES, "stop": [MARKER], "temperature": MARKER}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": f"http://{MARKER}.example/x"}}]}]}),
    ("/v1/completions", {"prompt": MARKER, "max_tokens": 4, "logprobs": MARKER}),
    ("/v1/chat/completions", f'{{"messages": "{MARKER}'.encode()),
    (f"/v1/{MARKER}", {"prompt": MARKER}),
]  # fmt: skip


async def ask_all(tunnel: Tunnel) -> None:
    for path, body in REQUESTS:
        answer = await tunnel.ask(body, path=path)
        assert answer.is_ended
    stream = await tunnel.begin({"messages": MESSAGES, "max_tokens": 500, "stream": True})
    await tunnel.until(lambda: tunnel.answers[stream].head is not None)
    await tunnel.send(0x02, stream)
    await tunnel.finish(stream)


def holders(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and MARKER.encode() in path.read_bytes()
    ]


def inside(bundle: Path) -> bytes:
    """All bytes of the bundle, unpacked."""
    with tarfile.open(bundle) as archive:
        parts = [archive.extractfile(member) for member in archive.getmembers() if member.isfile()]
        return b"\n".join(part.read() for part in parts if part is not None)


async def test_no_text_of_a_request_is_kept(agent: Agent, pool: Pool, tmp_path: Path) -> None:  # noqa: F811  the fixture
    await joined(agent, pool, tmp_path)

    async with agent.running():
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        await ask_all(tunnel)
        during = await agent.run("support-bundle", "--output", str(tmp_path / "during.tar.gz"))
        status = await agent.run("status", "--json")
    after = await agent.run("support-bundle", "--output", str(tmp_path / "after.tar.gz"))

    assert (during.status, after.status) == (0, 0), during.err + after.err
    assert "agent.started" in agent.log
    assert holders(agent.state) == []
    for name in ("during", "after"):
        kept = inside(tmp_path / f"{name}.tar.gz")
        assert b"agent.started" in kept or b"node" in kept
        assert MARKER.encode() not in kept
        assert MARKER.encode() not in gzip.decompress((tmp_path / f"{name}.tar.gz").read_bytes())
    assert MARKER not in status.out + status.err + json.dumps(pool.heartbeats)


async def test_an_engine_that_dies_in_the_middle_of_a_text_tells_none_of_it(
    agent: Agent, pool: Pool, tmp_path: Path  # noqa: F811  the fixture
) -> None:  # fmt: skip
    await joined(agent, pool, tmp_path)

    async with agent.running():
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        stream = await tunnel.begin({"messages": MESSAGES, "max_tokens": 500, "stream": True})
        await tunnel.until(lambda: len(tunnel.answers[stream].frames) > 1)
        (agent.state / "behaviour").write_text("dies", encoding="ascii")
        await tunnel.begin({"messages": MESSAGES, "max_tokens": 50, "stream": True})
        async with asyncio.timeout(40):
            while "engine_died" not in agent.log:
                await asyncio.sleep(0.1)

    assert holders(agent.state) == []
    assert MARKER not in json.dumps(pool.heartbeats)
