"""`python -m tests.fleet --nodes 1000 --minutes 10`: simulated nodes beat, then nobody is heard for three minutes.

Prints one JSON line a figure with its limit; exits 1 where one is missed.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from poolhouse_agent.simulate.fleet import mix

from portal.sandbox import waiting
from portal.sandbox.supervisor import Stack
from tests.fleet import ground

if TYPE_CHECKING:
    from tests.fleet.verdict import Standing

SILENCE_S = 180
_P99_MS = 250.0
_NODES_A_SECOND = 5
_RECOVERY_S = 90
_GOODBYE_S = 120.0
_NAME = "fleet"


def main() -> int:
    """Run it; 0 where every figure keeps its limit."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, ground.running(Path(folder)) as stack:
        trial = Trial(stack, nodes=options.nodes, minutes=options.minutes, weights=options.mix, seed=options.seed)
        figures = trial.run()
    is_kept = True
    for name, value, limit in figures:
        is_kept &= limit is None or value <= limit
        _say(json.dumps({"figure": name, "ours": value, "limit": limit}))
    return 0 if is_kept else 1


class Trial:
    """One run of a fleet against the pool."""

    def __init__(self, stack: Stack, *, nodes: int, minutes: float, weights: str, seed: int) -> None:
        self._stack = stack
        self._nodes = nodes
        self._weights = weights
        self._seed = seed
        self._ramp_s = max(10, nodes // _NODES_A_SECOND)
        self._quiet_s = self._ramp_s + int(minutes * 60)
        self._names = [f"sim-{number:05d}" for number in range(nodes)]

    def run(self) -> list[tuple[str, float, float | None]]:
        """Return (figure, value, limit) lines."""
        from django.utils import timezone

        from tests.fleet import verdict

        made = ground.offer(self._stack, self._names)
        began = timezone.now()
        self._start_simulator([made["tokens"][name] for name in self._names])
        self._until_enrolled()
        since = time.monotonic()
        ground.deploy(self._stack, made["provider"], self._names)
        _note(f"all nodes have joined and are told what to serve; states: {verdict.states()}")
        kinds = verdict.kinds_of(weights=self._weights, nodes=self._nodes, seed=self._seed)
        self._wait(self._quiet_s, since)
        before = verdict.standing()
        _note(f"before the silence: {verdict.states()}")
        self._turn_silence()
        self._wait(self._quiet_s + SILENCE_S, since)
        _note(f"at the end of the silence: {verdict.states()}")
        during = verdict.standing()
        self._turn_silence()
        self._wait(self._quiet_s + SILENCE_S + _RECOVERY_S, since)
        report = self._report()
        after = verdict.standing()
        _note(f"after it: {verdict.states()}")
        offline = verdict.false_offline(kinds, since=began)
        return self._figures(report, offline, _differences((before, during, after), kinds))

    def _figures(
        self, report: dict[str, Any], offline: list[str], differences: list[str]
    ) -> list[tuple[str, float, float | None]]:
        beats, everything = report["heartbeats_before_silence"], report["routes"]["heartbeat"]
        for line in (*sorted(set(offline)), *differences):
            _note(f"wrong: {line}")
        return [
            ("nodes", self._nodes, None),
            ("heartbeats", beats["count"], None),
            ("heartbeat_p50_ms", beats["p50_ms"], None),
            ("heartbeat_p99_ms", beats["p99_ms"], _P99_MS),
            ("heartbeat_max_ms", beats["max_ms"], None),
            ("heartbeat_p99_ms_with_the_return", everything["p99_ms"], None),
            ("false_offline", len(offline), 0.0),
            ("changed_by_silence", len(differences), 0.0),
        ]

    def _start_simulator(self, tokens: Sequence[str]) -> None:
        home = self._stack.folder / _NAME
        home.mkdir(mode=0o700)
        file = home / "tokens"
        file.touch(mode=0o600)
        file.write_text("\n".join(tokens), encoding="utf-8")
        arguments = ["simulate", "--server", self._stack.public_url, "--nodes", self._nodes, "--tokens-file", file]
        arguments += ["--identities", home / "identities", "--mix", self._weights, "--seed", self._seed, "--json"]
        arguments += ["--duration", "24h", "--ramp", self._ramp_s]
        self._stack.start_node(_NAME, ["-m", "poolhouse_agent", *map(str, arguments)])

    def _turn_silence(self) -> None:
        self._send(signal.SIGUSR1)

    def _send(self, number: int) -> None:
        process = self._stack.children[_NAME].process
        if process is None:
            raise RuntimeError("the simulator was never started")
        process.send_signal(number)

    def _until_enrolled(self) -> None:
        from portal.nodes.models import Node

        check = self._stack.children[_NAME].require_alive
        waiting.until("all have joined", lambda: Node.objects.count() == self._nodes, timeout_s=600, check=check)

    def _wait(self, until_s: float, since: float) -> None:
        while (left_s := until_s - (time.monotonic() - since)) > 0:
            self._stack.require_all_alive()
            Event().wait(min(left_s, 2.0))

    def _report(self) -> dict[str, Any]:
        child = self._stack.children[_NAME]
        self._send(signal.SIGINT)
        waiting.until("the simulator ends", lambda: child.pid is None, timeout_s=_GOODBYE_S)
        text = child.log.read_text(encoding="utf-8", errors="replace")
        report: dict[str, Any] = json.loads(text[text.index("\n{\n") :])
        _note(json.dumps(report, indent=1))
        return report


def _differences(moments: "Sequence[Standing]", kinds: dict[str, str]) -> list[str]:
    from tests.fleet import verdict

    first, *later = moments
    return sorted({line for moment in later for line in verdict.changed(first, moment, kinds)})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long before the silence")
    parser.add_argument("--mix", default=mix.DEFAULT)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  the command's output


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  the command's progress


if __name__ == "__main__":
    sys.exit(main())
