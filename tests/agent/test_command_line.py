"""The command line from join to leave, as its own process: exit codes, JSON, no secrets, no prompts."""

import argparse
import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from poolhouse_agent import cli

from tests.fakes.nvml import build
from tests.fakes.pool import Pool

SECRET_WORDS = "the quick brown secret"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@dataclass
class Done:
    """A finished command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Agent:
    """Runs `poolhouse-agent` with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.config = folder / "agent.toml"
        self.config.write_text("", encoding="ascii")
        self.environ = {**os.environ, "POOLHOUSE_NVML": "/none"}

    def argv(self, *words: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "poolhouse_agent",
            "--config",
            str(self.config),
            "--state",
            str(self.state),
            *words,
        ]

    async def run(self, *words: str, **environ: str) -> Done:
        child = await asyncio.create_subprocess_exec(
            *self.argv(*words), env={**self.environ, **environ}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(60):
            out, err = await child.communicate()
        return Done(child.returncode or 0, out.decode(), err.decode())

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.subprocess.Process]:
        log = (self.state / "run.log").open("wb")
        child = await asyncio.create_subprocess_exec(
            *self.argv("run"), env=self.environ, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()
        try:
            yield child
        finally:
            if child.returncode is None:
                child.terminate()
            async with asyncio.timeout(20):
                await child.wait()

    @property
    def log(self) -> str:
        return (self.state / "run.log").read_text(encoding="utf-8")


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


async def joined(agent: Agent, pool: Pool, tmp_path: Path) -> Done:
    token = tmp_path / "token"
    token.write_text(pool.token + "\n", encoding="ascii")
    return await agent.run("join", "--server", pool.server, "--token-file", str(token), "--name", "rack-1",
                           "--simulate", "rtx4090x2", "--json")  # fmt: skip


async def test_join_run_status_drain_resume_leave(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    done = await joined(agent, pool, tmp_path)
    assert (done.status, done.json) == (0, {"node": pool.node, "provider": "prov_test", "server": pool.server})
    jsonschema.validate(done.json, json.loads((SCHEMAS / "join.json").read_text(encoding="utf-8")))
    assert pool.enrolments[0]["name"] == "rack-1"
    assert pool.enrolments[0]["is_simulated"] is True
    before = await agent.run("status", "--json")
    assert (before.status, before.json["is_running"]) == (1, False)

    async with agent.running() as child:
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        answer = await tunnel.ask({"messages": [{"role": "user", "content": SECRET_WORDS}], "max_tokens": 5})
        assert answer.failure is None
        await asyncio.sleep(6.0)
        status = await agent.run("status", "--json")
        assert status.status == 0
        assert status.json["tunnel"] == "connected"
        assert status.json["deployments"][0]["state"] == "ready"
        assert len(status.json["gpus"]) == 2

        assert (await agent.run("drain")).status == 0
        await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] == "draining")
        assert (await agent.run("resume", "--json")).json == {"wish": "serve", "is_running": True}
        await tunnel.until_ready()

        left = await agent.run("leave")
        assert (left.status, left.out.strip()) == (0, "left the pool")
        async with asyncio.timeout(20):
            assert await child.wait() == 0

    assert pool.heartbeats[-1]["wish"] == "leave"
    assert (await agent.run("status")).status == 2
    assert "agent.left" in agent.log
    assert pool.token not in agent.log
    assert "ph-session-" not in agent.log
    assert SECRET_WORDS not in agent.log
    assert "secret" not in agent.log


async def test_sigterm_ends_the_agent_and_its_engine(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    await joined(agent, pool, tmp_path)

    async with agent.running() as child:
        await (await pool.tunnel()).until_ready()
        engine = json.loads((agent.state / "engines" / "dep_1" / "process.json").read_text(encoding="ascii"))["pid"]
        child.terminate()
        async with asyncio.timeout(10):
            assert await child.wait() == 0

    assert not Path(f"/proc/{engine}").exists()


async def test_a_killed_agent_leaves_its_engine_to_the_next_one(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    await joined(agent, pool, tmp_path)
    note = agent.state / "engines" / "dep_1" / "process.json"

    async with agent.running() as child:
        await (await pool.tunnel()).until_ready()
        engine = json.loads(note.read_text(encoding="ascii"))["pid"]
        child.kill()
        await child.wait()
    async with agent.running() as child:
        await (await pool.tunnel(1)).until_ready()
        adopted = json.loads(note.read_text(encoding="ascii"))["pid"]
        child.terminate()
        assert await child.wait() == 0

    assert adopted == engine
    assert "engine.adopted" in agent.log
    assert not Path(f"/proc/{engine}").exists()


async def test_engines_of_a_dead_agent_can_be_ended(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    await joined(agent, pool, tmp_path)
    note = agent.state / "engines" / "dep_1" / "process.json"
    async with agent.running() as child:
        await (await pool.tunnel()).until_ready()
        engine = json.loads(note.read_text(encoding="ascii"))["pid"]
        refused = await agent.run("engine", "stop")
        child.kill()
        await child.wait()

    stopped = await agent.run("engine", "stop", "--json")

    assert (refused.status, "agent_running" in refused.err) == (2, True)
    assert (stopped.status, stopped.json) == (0, {"stopped": 1})
    assert not Path(f"/proc/{engine}").exists()
    assert not note.exists()


async def test_a_second_agent_on_the_same_state_is_refused(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    await joined(agent, pool, tmp_path)

    async with agent.running():
        await pool.tunnel()
        second = await agent.run("run")

    assert second.status == 2
    assert "agent_running" in second.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run"], "not_joined"),
        (["status"], "not_joined"),
        (["drain"], "not_joined"),
        (["join", "--server", "http://pool.example"], "https_required"),
        (["join", "--server", "https://pool.example"], "token_missing"),
        (["join", "--server", "https://pool.example", "--simulate", "toaster"], "config_invalid"),
        (["join", "--server", "https://pool.example", "--token-file", "/none"], "token_missing"),
    ],
)
async def test_what_cannot_run_says_why_and_what_to_do(agent: Agent, words: list[str], code: str) -> None:
    done = await agent.run(*words)

    assert done.status == 2
    assert f"[{code}]" in done.err
    assert "fix:" in done.err
    assert "Traceback" not in done.err


async def test_a_refused_token_is_masked(agent: Agent, pool: Pool) -> None:
    done = await agent.run("join", "--server", pool.server, POOLHOUSE_TOKEN="ph-enrol-verysecret")

    assert done.status == 2
    assert "enrolment_token_invalid" in done.err
    assert "verysecret" not in done.err + done.out


async def test_a_machine_joins_once(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    await joined(agent, pool, tmp_path)

    again = await joined(agent, pool, tmp_path)

    assert again.status == 2
    assert "already_joined" in again.err
    assert len(pool.enrolments) == 1


async def test_doctor_needs_nothing_and_names_what_is_missing(agent: Agent) -> None:
    done = await agent.run("doctor", "--json", PATH="/usr/bin:/bin")

    assert done.status == 1
    checks = done.json["checks"]
    assert {"id", "status", "detail", "evidence", "fix"} <= set(checks[0])
    assert {check["status"] for check in checks} <= {"ok", "warn", "fail", "skip"}
    (gpu,) = [check for check in checks if check["id"] == "gpu"]
    assert gpu["code"] == "nvml_library_missing"
    assert gpu["fix"]
    assert not agent.state.exists()


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")
async def test_doctor_sees_gpus_and_their_troubles(agent: Agent, tmp_path: Path) -> None:
    scenario = build.Scenario(tmp_path / "scenario.txt")
    environ = {"POOLHOUSE_NVML": str(build.build(tmp_path)), "NVML_STUB": str(scenario.path)}

    narrow = await agent.run("doctor", "--json", "--only", "gpu", **environ)
    scenario.add("gpu1.pcie_width=16")
    healthy = await agent.run("doctor", "--json", "--only", "gpu", **environ)
    scenario.add("gpu0.lost=1", "gpu1.throttle=0x40", "gpu1.pcie_width=16")
    ailing = await agent.run("doctor", "--json", "--only", "gpu", **environ)

    assert (narrow.status, healthy.status) == (0, 0)
    assert [check["code"] for check in narrow.json["checks"]] == ["", "pcie_narrow", "", ""]
    assert [check["status"] for check in healthy.json["checks"]] == ["ok", "ok", "ok", "skip"]
    assert ailing.status == 1
    assert [check["code"] for check in ailing.json["checks"]] == ["gpu_is_lost", "thermal_slowdown", "", ""]


async def test_output_has_no_colours_when_it_is_no_terminal(agent: Agent) -> None:
    done = await agent.run("doctor", "--only", "machine")

    assert "\x1b" not in done.out + done.err


async def test_the_service_unit_is_hardened_and_names_its_folders(agent: Agent) -> None:
    done = await agent.run("service", "show", POOLHOUSE_VLLM="/opt/vllm/bin/vllm")

    assert done.status == 0
    assert f"--state {agent.state} run" in done.out
    assert "POOLHOUSE_VLLM=/opt/vllm/bin/vllm" in done.out
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "Type=notify", "User=poolhouse",
                 f"ReadWritePaths={agent.state}", "RestartPreventExitStatus=2"):  # fmt: skip
        assert line in done.out.splitlines()


async def test_a_service_path_that_a_unit_cannot_hold_is_refused(agent: Agent) -> None:
    done = await agent.run("service", "show", POOLHOUSE_VLLM="/opt/x\nExecStartPre=/bin/evil")

    assert done.status == 2
    assert "config_invalid" in done.err


async def test_the_agent_at_rest_is_small(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(pool.token, encoding="ascii")
    pool.desired = []
    await agent.run("join", "--server", pool.server, "--token-file", str(token))

    async with agent.running() as child:
        await pool.tunnel()
        await asyncio.sleep(3.0)
        pids = [child.pid, *children(child.pid)]
        pss_kib = sum(pss(pid) for pid in pids)

    assert 10 * 1024 < pss_kib <= 70 * 1024


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(one) for one in found]


def pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


async def test_engine_status_names_the_program_and_its_version(agent: Agent, tmp_path: Path) -> None:
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\necho 0.32.0\n", encoding="ascii")
    program.chmod(0o755)

    found = await agent.run("engine", "status", "--json", POOLHOUSE_VLLM=str(program))
    missing = await agent.run("engine", "status", PATH="/usr/bin:/bin")

    assert (found.status, found.json) == (
        0,
        {"program": str(program), "version": "0.32.0", "tested_version": "0.32.0", "installed": [], "running": []},
    )  # fmt: skip
    assert missing.status == 2
    assert "engine_missing" in missing.err


def test_every_json_that_promises_a_shape_has_one_published() -> None:
    promised = {}
    for word, command in words(cli.parser()).items():
        (option,) = [one for one in command._actions if "--json" in one.option_strings] or [None]
        found = re.search(r"docs/schemas/(\S+)", option.help or "") if option else None
        if found:
            promised[word] = found[1]

    assert promised.keys() >= {"doctor", "join", "benchmark", "status", "plan", "simulate", "receipts verify"}
    assert all((SCHEMAS / name).is_file() for name in promised.values())


def words(parser: argparse.ArgumentParser, before: str = "") -> dict[str, argparse.ArgumentParser]:
    """All commands and their verbs by the words that call them."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                found |= {f"{before}{name}": command, **words(command, f"{before}{name} ")}
    return found
