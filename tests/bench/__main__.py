"""`python -m tests.bench [--peers "vllm-router litellm"]`: the figures, one JSON line each, then the targets."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from portal.sandbox import processes as children
from tests.bench import agent_node, figures, ground, growth, peers, processes, wrk
from tests.bench.figures import AgentRow, Profile
from tests.bench.ground import Ours
from tests.bench.measure import Bench, Subject
from tests.bench.tunnel_node import MODEL
from tests.bench.wrk import Request

_PEERS = Path(__file__).parents[2] / ".cache" / "peers"


@contextmanager
def _upstream(folder: Path) -> Iterator[int]:
    port = children.free_port()
    argv = [sys.executable, "-m", "tests.bench.upstream", str(port)]
    with processes.on_core(processes.LOAD_CORE):
        engine = children.start(argv, log=folder / "upstream.log")
    try:
        yield port
    finally:
        children.stop(engine)


def _direct_p50_ms(bench: Bench, port: int) -> float:
    """Return how long the engine's own answer takes, without any gateway."""
    request = Request(peers.KEY, peers.MODEL)
    url = f"http://127.0.0.1:{port}"
    wrk.run(url, request, connections=1, seconds=1, folder=bench.folder)
    with processes.on_core(processes.LOAD_CORE):
        return wrk.run(url, request, connections=1, seconds=bench.seconds / 2, folder=bench.folder).p50_ms


def _measure_ours(bench: Bench, *, port: int, direct_p50_ms: float) -> tuple[Profile, AgentRow]:
    ours = Ours(ground.new_pool(bench.folder), bench.folder)
    try:
        ours.connect(batch=1)
        subject = Subject(
            ours.url, ours.pid, Request(ours.pool.key, MODEL), batch=lambda events: ours.connect(batch=events)
        )
        profile = bench.profile(subject, direct_p50_ms=direct_p50_ms)
        with agent_node.running(ours, engine_port=port, model=MODEL) as agent:
            return profile, _measure_agent(bench, subject, agent=agent, direct_p50_ms=direct_p50_ms)
    finally:
        ours.stop()


def _measure_agent(bench: Bench, subject: Subject, *, agent: int, direct_p50_ms: float) -> AgentRow:
    """Measure the same gateway with the real agent as its node; the agent gathers tokens as it does everywhere."""
    before = processes.cpu_s(agent)
    through = bench.profile(replace(subject, batch=None), direct_p50_ms=direct_p50_ms)
    return AgentRow(through, agent_cpu_s=processes.cpu_s(agent) - before, agent_rss_mib=processes.rss_mib(agent))


def _measure_peer(name: str, bench: Bench, *, port: int, direct_p50_ms: float) -> Profile:
    with peers.running(name, upstream_port=port, folder=_PEERS, log_folder=bench.folder) as peer:
        subject = Subject(peer.url, peer.pid, Request(peers.KEY, peers.MODEL))
        return bench.profile(subject, direct_p50_ms=direct_p50_ms)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  the bench's output


def _compare(names: Sequence[str], bench: Bench) -> None:
    with _upstream(bench.folder) as port, ground.servers(bench.folder):
        direct = _direct_p50_ms(bench, port)
        ours, through_agent = _measure_ours(bench, port=port, direct_p50_ms=direct)
        others = {name: _measure_peer(name, bench, port=port, direct_p50_ms=direct) for name in names}
    for row in (*figures.lines(ours, others), *figures.agent_lines(through_agent)):
        _say(row)
    for name, profile in {"poolhouse": ours, "poolhouse with its agent": through_agent.profile, **others}.items():
        if profile.errors:
            _say(f"# {name}: {profile.errors} answers were errors or time-outs")
    _say("")
    for row in figures.table(ours, others):
        _say(row)


def _grow(bench: Bench) -> None:
    with ground.servers(bench.folder):
        ours = Ours(ground.new_pool(bench.folder), bench.folder)
        try:
            growth.rows(ours, bench, model=MODEL, say=_say)
        finally:
            ours.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description="the gateway beside its peers, in one run")
    parser.add_argument("--peers", default="", help="names, separated by spaces: " + " ".join(peers.PACKAGES))
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each measurement takes")
    parser.add_argument("--growth", action="store_true", help="instead: how cost grows; paced streams")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="poolhouse-bench-") as folder:
        bench = Bench(Path(folder), given.seconds)
        if given.growth:
            _grow(bench)
        else:
            _compare(given.peers.split(), bench)


if __name__ == "__main__":
    main()
