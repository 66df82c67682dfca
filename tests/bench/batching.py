"""What gathering tokens gives and costs: `python -m tests.bench.batching`, one JSON line for each size of batch.

A real agent stands between an HTTP stand-in for an engine and a gateway's end of the tunnel; nothing else runs. Each
line has the agent's CPU time a token, the frames a token, and how long after it was asked a stream's first token came.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from poolhouse_agent import identity, runtime, session
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config, ExternalServer
from poolhouse_agent.state import Membership, State
from poolhouse_agent.tunnel.terms import Terms

from portal.sandbox import processes as children
from tests.bench import processes
from tests.fakes.pool import DATA, Pool, desired, running_pool

_MODEL, _SERVED = "acme/demo", "m"
_BATCHES = (1, 4)
_TOKENS = 200
_BODY = {"messages": [{"role": "user", "content": "go"}], "stream": True, "max_tokens": _TOKENS}


@dataclass(frozen=True, slots=True)
class Load:
    """So many streams at once, each with a token every `gap_s`."""

    streams: int
    gap_s: float


async def _agent(folder: Path, batch: int, engine_port: int) -> None:
    """Run the agent of a folder with this size of batch until killed."""
    state = State(folder)
    server = ExternalServer(url=f"http://127.0.0.1:{engine_port}", served_name=_SERVED)
    config = Config(external={_MODEL: server})
    async with runtime.assembled(state, config, terms=Terms(batch_events=batch)) as agent:
        await agent.run()


async def _measure(load: Load, batch: int, folder: Path) -> dict[str, object]:
    async with running_pool() as pool:
        pool.desired = [desired(engine="external", settings={}, max_concurrency=load.streams)]
        await _join(pool, folder)
        with _engine(load, folder) as engine_port, _child(batch, engine_port, folder) as agent:
            tunnel = await pool.tunnel()
            await tunnel.until_ready()
            await asyncio.gather(*(tunnel.ask(_BODY, 300.0) for _ in range(load.streams)))
            before, loop = processes.cpu_s(agent), asyncio.get_running_loop()
            asked: list[tuple[float, int]] = []
            for _ in range(load.streams):
                asked.append((loop.time(), await tunnel.begin(_BODY)))
                await asyncio.sleep(load.gap_s / load.streams)
            found = await asyncio.gather(*(tunnel.finish(stream, 300.0) for _, stream in asked))
            used_s = processes.cpu_s(agent) - before
    frames = [[frame for frame in answer.frames if frame.type == DATA] for answer in found]
    firsts = [1000 * (few[0].at - at) for (at, _), few in zip(asked, frames, strict=True)]
    tokens = load.streams * _TOKENS
    return {
        "batch": batch, "streams": load.streams, "gap_ms": 1000 * load.gap_s,
        "agent_cpu_us_per_token": round(1e6 * used_s / tokens, 1),
        "frames_per_token": round(sum(map(len, frames)) / tokens, 3),
        "first_token_p50_ms": round(statistics.median(firsts), 2), "first_token_max_ms": round(max(firsts), 2),
    }  # fmt: skip


async def _join(pool: Pool, folder: Path) -> None:
    state = State(folder)
    state.create()
    async with PortalClient(pool.server) as client:
        key = identity.load_or_create(state.key_file)
        enrolled = await session.enrol(client, key, token=pool.token, name="bench", is_simulated=False, host={})
    state.store_membership(Membership(enrolled.node, enrolled.provider, pool.server, "bench"))


@contextmanager
def _engine(load: Load, folder: Path) -> Iterator[int]:
    port = children.free_port()
    argv = [sys.executable, "-m", "tests.bench.upstream", port, "--tokens", _TOKENS, "--gap", load.gap_s]
    engine = children.start([str(part) for part in argv], log=folder / "engine.log")
    try:
        yield port
    finally:
        children.stop(engine)


@contextmanager
def _child(batch: int, engine_port: int, folder: Path) -> Iterator[int]:
    argv = [sys.executable, "-m", "tests.bench.batching", "--agent", folder, "--batch", batch, "--engine", engine_port]
    agent = children.start([str(part) for part in argv], log=folder / "agent.log")
    try:
        yield agent.pid
    finally:
        children.stop(agent)


def main() -> None:
    """Print a line for each size of batch, or be the agent that is measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.batching", description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--gap", type=float, default=0.02, help="seconds between an engine's tokens")
    parser.add_argument("--agent", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--engine", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.agent is not None:
        asyncio.run(_agent(given.agent, given.batch, given.engine))
        return
    for batch in _BATCHES:
        with tempfile.TemporaryDirectory(prefix="batching-") as folder:
            row = asyncio.run(_measure(Load(given.streams, given.gap), batch, Path(folder)))
        print(json.dumps(row), flush=True)  # noqa: T201  the command's output


if __name__ == "__main__":
    main()
