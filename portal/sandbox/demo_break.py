"""Breaks one part of a running demo while streams run, waits until it is healed, and counts what was lost."""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from portal.sandbox import demo_requests, waiting
from portal.sandbox.demo import SETTINGS
from portal.sandbox.ground import Ground
from portal.sandbox.surroundings import CommandFailed, Surroundings

TARGETS = {
    "node": "demo-node-1",
    "gateway": "gateway-0",
    "worker": "worker",
    "stripe": "stripe",
    "postgres": "postgres",
}
STREAMS = 20
MAX_TOKENS = 400
ANSWERS_IN_A_ROW = 10
MARK_S = 1.3  # a gateway process marks open streams each second; the rest is for a busy machine
PROMPT = "Tell a story of 600 words about a meter that never lost a token."
_BEGUN_S = 30.0
_UNDERWAY_S = 2.5
_HEALED_S = 60.0
_AUDIT_S = 120.0


class NoDemo(RuntimeError):
    """There is no running demo to break."""


@dataclass(slots=True)
class Stream:
    """One customer's stream: its request id, when each token came (monotonic seconds), and how it ended."""

    request: str = ""
    arrivals: list[float] = field(default_factory=list)
    ending: str = "running"

    def owed(self, killed_at: float) -> int:
        """Return the tokens that must be in the books: of a cut stream all but those of the last second."""
        until = killed_at - MARK_S if self.ending == "cut" else float("inf")
        return sum(at <= until for at in self.arrivals)


@dataclass(frozen=True, slots=True)
class Report:
    """What happened; `is_clean` where nothing was lost and the ledger has no difference."""

    broke: str
    healed_after_s: float
    streams: dict[str, int]
    audit: dict[str, Any] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing was lost, nothing doubled and the books agree."""
        return not any(self.audit[name] for name in ("lost", "doubled", "unbooked", "ledger_differences"))


def run(what: str, *, folder: Path) -> int:
    """Break the part and print the report; return 0 where it is clean, 1 where it is not."""
    try:
        report = _break(what, Ground(folder))
    except (NoDemo, CommandFailed, waiting.TookTooLong) as error:
        print(f"demo-break: {error}", file=sys.stderr)
        return 1
    print(json.dumps({**asdict(report), "clean": report.is_clean}), flush=True)
    return 0 if report.is_clean else 1


def _break(what: str, ground: Ground) -> Report:
    running = _running(ground)
    ports = ground.read("ports") | {"portal": int(running["public_url"].rpartition(":")[2])}
    stack = Surroundings(ground, ports=ports, settings=SETTINGS)
    world = running["world"]
    streams = [Stream() for _ in range(STREAMS)]
    with ThreadPoolExecutor(STREAMS) as pool:
        for stream in streams:
            pool.submit(_follow, stream, stack.gateway_url, world)
        waiting.until("the streams have begun", lambda: all(stream.arrivals for stream in streams), timeout_s=_BEGUN_S)
        Event().wait(_UNDERWAY_S)
        payout = _begin_payout(stack, world) if what in {"worker", "stripe"} else ""
        killed_at = time.monotonic()
        healed_after_s = _kill_and_wait(ground, TARGETS.get(what) or world["nodes"][0])
        _wait_until_served(stack, world)
    owed = {stream.request: stream.owed(killed_at) for stream in streams if stream.request}
    audit = _audit(stack, world, owed, payout)
    print(_told(what, streams, audit))
    return Report(broke=what, healed_after_s=round(healed_after_s, 1), streams=_endings(streams), audit=audit)


def _running(ground: Ground) -> dict[str, Any]:
    running = ground.read("run")
    if "world" not in running or not ground.is_claimed():
        raise NoDemo("no demo runs here: start one with `make demo` and leave it running")
    return running


def _follow(stream: Stream, gateway_url: str, world: Mapping[str, Any]) -> None:
    try:
        events = demo_requests.stream_events(
            gateway_url=gateway_url,
            key=world["api_key"],
            model=world["model"],
            prompt=PROMPT,
            max_tokens=min(MAX_TOKENS, world["longest_output"]),
            on_begin=lambda request: setattr(stream, "request", request),
        )
        for event in events:
            if any(choice["delta"].get("content") for choice in event.get("choices", [])):
                stream.arrivals.append(time.monotonic())
        stream.ending = "finished"
    except demo_requests.RequestFailed as error:
        stream.ending = "refused" if not stream.arrivals else "told of the error"
        print(f"  a stream ended: {error}")
    except demo_requests.BROKEN as error:
        stream.ending = "cut"
        print(f"  a stream was cut: {type(error).__name__}")


def _kill_and_wait(ground: Ground, name: str) -> float:
    """Kill the part's whole process group, and wait until the supervisor runs it under another process id."""
    pid = ground.read("run")["names"][name]
    print(f"demo-break: kill -9 {name} (process {pid})", flush=True)
    began = time.monotonic()
    os.killpg(pid, signal.SIGKILL)
    waiting.until(f"{name} runs again", lambda: ground.read("run")["names"].get(name, pid) != pid, timeout_s=_HEALED_S)
    return time.monotonic() - began


def _wait_until_served(stack: Surroundings, world: Mapping[str, Any]) -> None:
    """Wait until every gateway process serves the model again."""
    seen = 0

    def is_served() -> bool:
        nonlocal seen
        is_ready = demo_requests.is_ready(gateway_url=stack.gateway_url, key=world["api_key"], model=world["model"])
        seen = seen + 1 if is_ready else 0
        return seen >= ANSWERS_IN_A_ROW

    waiting.until("the model is served again", is_served, timeout_s=_HEALED_S)


def _begin_payout(stack: Surroundings, world: Mapping[str, Any]) -> str:
    given = {"provider": world["provider"], "operator": world["logins"]["operator"]["email"]}
    given |= {"stripe_url": stack.stripe_url}
    return str(_step(stack, "begin_payout", given)["payout"])


def _audit(stack: Surroundings, world: Mapping[str, Any], owed: dict[str, int], payout: str) -> dict[str, Any]:
    given = {
        "customer": world["customer"],
        "requests": owed,
        "payout": payout,
        "stripe_url": stack.stripe_url,
    }
    return _step(stack, "audit", given)


def _step(stack: Surroundings, name: str, given: dict[str, Any]) -> dict[str, Any]:
    printed = stack.run(["-m", "portal.sandbox.demo_audit", name], stdin=json.dumps(given), timeout_s=_AUDIT_S)
    result: dict[str, Any] = json.loads(printed)
    return result


def _endings(streams: list[Stream]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for stream in streams:
        counts[stream.ending] = counts.get(stream.ending, 0) + 1
    return counts


def _told(what: str, streams: list[Stream], audit: Mapping[str, Any]) -> str:
    lost, doubled = len(audit["lost"]), len(audit["doubled"])
    return (
        f"demo-break: {what} died under {len(streams)} streams: {_endings(streams)}\n"
        f"  lost: {lost or 'nothing'}; doubled: {doubled or 'nothing'}; unbooked: {audit['unbooked'] or 'nothing'}\n"
        f"  charged {audit['charged_nano']} nano = earned {audit['provider_nano']} + kept {audit['platform_nano']}\n"
        f"  ledger differences: {audit['ledger_differences']}"
    )
