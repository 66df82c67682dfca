"""What a deployment does about the ways in which engines fail: ease, distrust, wait, or give up."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from poolhouse_agent.config import Downloads
from poolhouse_agent.engine.timing import Timing
from poolhouse_agent.state import State

from tests.agent.conftest import join, running_agent
from tests.agent.engine.machine import Machine
from tests.fakes.hub import running_hub
from tests.fakes.pool import Pool

OLD = "0.32.0"
HASTY = Timing(poll_s=0.1, restart_first_s=0.05, restart_longest_s=0.1, restarts_an_hour=8, drain_s=1.0)


async def failed(pool: Pool, code: str) -> dict[str, Any]:
    beat = await pool.heartbeat(lambda beat: beat["deployments"] and beat["deployments"][0]["code"] == code)
    found: dict[str, Any] = beat["deployments"][0]
    return found


async def test_an_engine_without_memory_is_started_again_with_less(pool: Pool, state: State, machine: Machine) -> None:
    """The stand-in has memory as soon as no CUDA graphs are captured."""
    machine.break_version(OLD, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    (machine.folders[OLD] / "fits").write_text("--enforce-eager", encoding="ascii")
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config, timing=HASTY):
        await (await pool.tunnel()).until_ready()
        report = await failed(pool, "engine_eased")

    assert report["state"] == "ready"
    assert report["detail"] == "step 2 of 2"
    assert "--enforce-eager" in machine.started()["argv"]


async def test_a_gpu_that_fails_twice_is_not_trusted(pool: Pool, state: State, machine: Machine) -> None:
    machine.break_version(OLD, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config, timing=HASTY):
        report = await failed(pool, "gpu_suspect")
        starts = len(machine.starts())
        await pool.heartbeat(lambda beat: True)
        await pool.heartbeat(lambda beat: True)

    assert report["state"] == "failed"
    assert "illegal memory access" in report["detail"]
    assert starts == len(machine.starts()) == 2


async def test_what_no_start_cures_is_not_tried_again_until_the_wish_changes(
    pool: Pool, state: State, machine: Machine
) -> None:
    machine.break_version(OLD, "ValueError: Cannot find the config file for awq")
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=machine.config, timing=HASTY):
        tunnel = await pool.tunnel()
        report = await failed(pool, "quantization_unsupported")
        starts = len(machine.starts())
        pool.desired = [machine.wanted("0.33.0")]
        await tunnel.until_ready()

    assert report["state"] == "failed"
    assert starts == 1


async def test_a_quota_that_is_used_up_is_waited_for(pool: Pool, state: State, machine: Machine) -> None:
    """No crash loop comes of it, however often it is looked at: no engine died."""
    with running_hub(machine.weights) as hub:
        downloads = Downloads(hub=hub.url, keep_free_bytes=0)
        config = replace(machine.config, models={}, downloads=downloads, owner={"download_day": "10 B"})
        pool.weights = {"source": "acme/tiny", "revision": "r1", "files": machine.listed()}
        pool.desired = [machine.wanted()]
        await join(pool, state, simulate="")
        codes = set()
        async with running_agent(state, config=config, timing=replace(HASTY, restarts_an_hour=1)) as agent:
            async with asyncio.timeout(20):
                while len(hub.asked) < 8:  # two files, four rounds
                    codes |= {report.code for report in agent.deployments.reports()}
                    await asyncio.sleep(0.02)

    assert codes - {""} == {"download_quota_reached"}
    assert {command for command, _, _ in hub.asked} == {"HEAD"}


@pytest.mark.parametrize("has_list", [True, False])
async def test_a_model_that_is_not_there_is_fetched_and_served(
    pool: Pool, state: State, machine: Machine, has_list: bool
) -> None:
    with running_hub(machine.weights) as hub:
        config = replace(machine.config, models={}, downloads=Downloads(hub=hub.url, keep_free_bytes=0))
        pool.weights = {"source": "acme/tiny", "revision": "r1", "files": machine.listed()} if has_list else None
        pool.desired = [machine.wanted()]
        await join(pool, state, simulate="")
        async with running_agent(state, config=config):
            if has_list:
                await (await pool.tunnel()).until_ready()
                serves = machine.started()["argv"][1]
            else:
                report = await failed(pool, "weights_missing")

    if has_list:
        assert serves == str(state.folder / "weights" / machine.wanted()["artefact_digest"])
    else:
        assert report["state"] == "failed"
        assert hub.asked == []
