"""`status`: exactly what it prints in each state, and that its JSON keeps to the published schema."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from poolhouse_agent import cli, status
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import Membership, State, Wish

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "agent-status.json").read_text(encoding="utf-8"))
GPU = {
    "uuid": "GPU-1", "index": 0, "name": "NVIDIA GeForce RTX 4090", "memory_bytes": 25_757_220_864,
    "driver": "570.133.20", "compute_capability": "8.9", "values": {"temperature_c": 41, "power_mw": 28_500},
    "missing": {},
}  # fmt: skip
OWNER = {
    "action": "serve", "code": "", "until": None, "detail": "", "rests_at": None, "zone": "Europe/Berlin",
    "power_cap_w": None, "power": [],
    "downloads": {"day_bytes": 0, "month_bytes": 0, "day_limit_bytes": None, "month_limit_bytes": None, "code": ""},
}  # fmt: skip
READY = {"deployment": "dep_1", "model": "acme/chat-8b", "state": "ready", "code": "", "detail": "", "fix": "",
         "running": 3, "max_concurrency": 8}  # fmt: skip


def written(**changes: Any) -> dict[str, Any]:
    """What a serving agent wrote a moment ago."""
    return {
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"), "agent_version": "0.1.0", "node": "node_1",
        "server": "https://pool.example", "wish": "serve", "owner": OWNER, "portal": {"code": ""},
        "node_state": "serving", "generation": 7, "tunnel": "connected", "gpus": [GPU], "gpu_errors": [],
        "deployments": [READY], **changes,
    }  # fmt: skip


@pytest.fixture
def joined(state: State) -> State:
    state.store_membership(Membership("node_1", "prov_1", "https://pool.example", "rack-1"))
    return state


@contextmanager
def lock_held(state: State) -> Iterator[None]:
    """As if an agent ran: its lock is another open file's."""
    with (state.folder / "run.lock").open("w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class Printed:
    """Runs `status` while an agent seems to run, and takes what it prints."""

    def __init__(self, state: State, capsys: pytest.CaptureFixture[str]) -> None:
        self.state = state
        self._capsys = capsys

    def __call__(self, *, is_running: bool = True, **changes: Any) -> tuple[int, str]:
        self.state.write(status.FILE, written(**changes))
        if not is_running:
            return self.run()
        with lock_held(self.state):
            return self.run()

    def run(self, *words: str) -> tuple[int, str]:
        code = cli.main(["--state", str(self.state.folder), "status", *words])
        return code, self._capsys.readouterr().out

    def json(self) -> dict[str, Any]:
        _, out = self.run("--json")
        found = json.loads(out)
        jsonschema.validate(found, SCHEMA)
        return dict(found)


@pytest.fixture
def printed(joined: State, capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(joined, capsys)


def test_serving(printed: Printed) -> None:
    assert printed() == (0, """\
rack-1 (node_1) of https://pool.example: running
  pool says   serving
  tunnel      connected
  agent       0.1.0
  owner       serves
  GPU 0       NVIDIA GeForce RTX 4090, 24564 MiB, 41 °C, 28 W
  model       acme/chat-8b: ready, 3 of 8 requests
""")  # fmt: skip


def test_not_running(printed: Printed) -> None:
    assert printed(is_running=False) == (1, """\
rack-1 (node_1) of https://pool.example: not running
agent_not_running: No running agent answers for this state folder.
  fix: Start it: `systemctl start poolhouse-agent`, or `poolhouse-agent run`.
""")  # fmt: skip


def test_running_but_silent(printed: Printed) -> None:
    long_ago = (datetime.now(UTC) - timedelta(minutes=2)).isoformat(timespec="seconds")

    assert printed(written_at=long_ago) == (1, """\
rack-1 (node_1) of https://pool.example: running
agent_silent: The agent holds its state folder, but has not written its status for a while: it may hang or be starting.
  fix: Look at its log: `journalctl -u poolhouse-agent`. If it lasts, restart it.
""")  # fmt: skip


def test_the_pool_refuses(printed: Printed) -> None:
    refusal = {"code": "node_suspended", "detail": "the operator wants to see the machine", "fix": "ask the operator"}

    code, out = printed(portal=refusal, node_state="", tunnel="disconnected", deployments=[])

    assert (code, out.splitlines()[1:3]) == (1, ["  pool says   not heard yet", "  tunnel      disconnected"])
    assert out.splitlines()[-2] == "node_suspended: the operator wants to see the machine"
    assert out.splitlines()[-1].startswith("  fix: ")


def test_no_tunnel(printed: Printed) -> None:
    code, out = printed(tunnel="disconnected")

    assert code == 1
    assert out.splitlines()[-2].startswith("tunnel_lost: ")


def test_resting_is_well_and_says_until_when(printed: Printed) -> None:
    owner = {**OWNER, "action": "rest", "code": "owner_quiet_hours", "until": "2026-12-01T05:30:00+00:00"}

    assert printed(owner=owner, deployments=[], node_state="maintenance", gpus=[]) == (0, """\
rack-1 (node_1) of https://pool.example: running
  pool says   maintenance
  tunnel      connected
  agent       0.1.0
  owner       rests until 2026-12-01T05:30:00+00:00: owner_quiet_hours
owner_quiet_hours: The machine rests at these times of its owner's choice.
  fix: Nothing to do: it comes back by itself. `poolhouse-agent schedule` shows and changes the hours.
""")  # fmt: skip


def test_limits_and_what_stands_in_their_way(printed: Printed) -> None:
    refused = {"gpu": "GPU-1", "now_w": None, "before_w": 450, "code": "power_cap_not_permitted", "detail": "error 4",
               "fix": "run it as root"}  # fmt: skip
    downloads = {"day_bytes": 12_500_000_000, "month_bytes": 40_000_000_000, "day_limit_bytes": 50_000_000_000,
                 "month_limit_bytes": 400_000_000_000, "code": ""}  # fmt: skip
    owner = {**OWNER, "power_cap_w": 280, "power": [refused], "downloads": downloads,
             "rests_at": "2026-11-30T22:00:00+00:00"}  # fmt: skip

    assert printed(owner=owner, gpus=[], deployments=[]) == (0, """\
rack-1 (node_1) of https://pool.example: running
  pool says   serving
  tunnel      connected
  agent       0.1.0
  owner       serves, rests at 2026-11-30T22:00:00+00:00
  power cap   280 W a GPU
    GPU-1: power_cap_not_permitted: error 4
      fix: run it as root
  downloads   12.5 GB of 50 GB this day
  downloads   40 GB of 400 GB this month
""")  # fmt: skip


def test_a_model_that_failed_and_a_gpu_that_cannot_be_read(printed: Printed) -> None:
    failed = {**READY, "state": "failed", "code": "weights_missing", "detail": "/models/x has no config.json",
              "fix": "download them", "running": 0}  # fmt: skip
    unread = {**GPU, "memory_bytes": None, "values": {}, "missing": {"temperature_c": "not_supported"}}

    code, out = printed(gpus=[unread], gpu_errors=[{"code": "gpu_is_lost", "detail": "GPU 1"}], deployments=[failed])

    assert code == 1
    assert out.splitlines()[5:10] == [
        "  GPU 0       NVIDIA GeForce RTX 4090, ? MiB, ? °C, ? W",
        "  GPU trouble gpu_is_lost: GPU 1",
        "  model       acme/chat-8b: failed, 0 of 8 requests",
        "    weights_missing: /models/x has no config.json",
        "      fix: download them",
    ]
    assert out.splitlines()[10].startswith("weights_missing: ")


def test_not_joined_is_a_sentence_and_no_traceback(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--state", str(state.folder), "status"]) == 2

    assert "[not_joined]" in capsys.readouterr().err


@pytest.mark.parametrize("is_running", [True, False])
def test_the_json_keeps_to_its_schema(printed: Printed, is_running: bool) -> None:
    printed.state.write(status.FILE, written())
    if not is_running:
        assert printed.json()["code"] == "agent_not_running"
        return
    with lock_held(printed.state):
        assert printed.json()["is_well"] is True


async def test_what_a_real_agent_writes_keeps_to_the_schema_too(serving: Agent) -> None:
    serving.state.store_wish(Wish.SERVE)
    found = serving.status()
    found |= {"provider": "", "name": "", "simulate": "x", "is_running": True, "is_well": True, "code": "", "cause": "",
              "fix": ""}  # fmt: skip

    jsonschema.validate(found, SCHEMA)
    assert found["owner"]["action"] == "serve"
    assert found["deployments"][0]["state"] == "ready"
