"""GPUs are handed out by UUID: what the pool wants, of what the owner lists, never a taken, lost or full one."""

from typing import Any

import pytest
from poolhouse_agent.engine import vllm_flags
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.errors import EngineError
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.protocol.messages import Desired

GIB = 1 << 30
A, B, C, D = (f"GPU-0000000{letter}" for letter in "abcd")


def gpu(uuid: str, *, used: int = 0, pids: tuple[int, ...] = ()) -> dict[str, Any]:
    processes = [{"pid": pid, "memory_bytes": None} for pid in pids]
    values = {"memory_used_bytes": used, "memory_free_bytes": 24 * GIB - used, "processes": processes}
    return {"uuid": uuid, "memory_bytes": 24 * GIB, "values": values}


def report(*uuids: str, lost: str = "") -> GpuReport:
    errors = ({"code": "gpu_is_lost", "detail": lost},) if lost else ()
    return GpuReport(tuple(gpu(uuid) for uuid in uuids), errors)


def choice(found: GpuReport) -> GpuChoice:
    return GpuChoice(lambda: found, freed_within_s=0.0)


def refusal(work: Any) -> tuple[str, str]:
    with pytest.raises(EngineError) as refused:
        work()
    return refused.value.code, refused.value.detail


def test_two_engines_never_share_a_gpu() -> None:
    gpus = choice(report(A, B, C))

    first, second = gpus.pick((), count=1, owner="dep_1"), gpus.pick((), count=2, owner="dep_2")

    assert (first, second) == ((A,), (B, C))
    assert refusal(lambda: gpus.pick((), count=1, owner="dep_3"))[0] == "gpu_taken"
    gpus.release("dep_1")
    assert gpus.pick((), count=1, owner="dep_3") == (A,)


def test_the_pools_choice_is_taken_by_uuid() -> None:
    gpus = choice(report(A, B, C, D))

    assert gpus.pick((), count=2, owner="dep_1", wanted=(D, B)) == (D, B)
    assert refusal(lambda: gpus.pick((), count=1, owner="dep_2", wanted=(B,)))[0] == "gpu_taken"


def test_the_owners_list_goes_before_the_pools_choice() -> None:
    gpus = choice(report(A, B))

    assert refusal(lambda: gpus.pick((A,), count=1, owner="dep_1", wanted=(B,))) == ("gpu_not_listed", B)
    assert gpus.pick((A,), count=1, owner="dep_1", wanted=(A,)) == (A,)


def test_a_lost_gpu_is_named_and_the_others_serve() -> None:
    gpus = choice(report(A, B, lost=B))

    assert gpus.pick((), count=1, owner="dep_1") == (A,)
    assert refusal(lambda: gpus.pick((), count=1, owner="dep_2", wanted=(B,))) == ("gpu_is_lost", B)
    assert refusal(lambda: choice(report(A)).pick((B,), count=1, owner="x")) == ("gpu_not_found", B)


def test_an_adopted_engine_keeps_its_gpus() -> None:
    gpus = choice(report(A, B))
    gpus.take("dep_1", [B])

    assert gpus.pick((), count=1, owner="dep_2") == (A,)
    assert not gpus.has_free((), count=1)


def test_looking_for_room_takes_nothing() -> None:
    gpus = choice(report(A, B))

    assert gpus.has_free((), count=2)
    assert gpus.taken == {}


async def test_memory_that_a_process_holds_is_named_with_it() -> None:
    gpus = choice(GpuReport((gpu(A, used=20 * GIB, pids=(4711, 4712)), gpu(B))))

    await gpus.require_free((B,), share=0.9)
    with pytest.raises(EngineError) as refused:
        await gpus.require_free((A, B), share=0.9)

    assert (refused.value.code, refused.value.detail) == (
        "gpu_in_use", f"{A}: 20.0 GiB held by process 4711, 4712",
    )  # fmt: skip


async def test_memory_that_nobody_holds_has_leaked() -> None:
    gpus = choice(GpuReport((gpu(A, used=20 * GIB),)))

    with pytest.raises(EngineError) as refused:
        await gpus.require_free((A,), share=0.9)

    assert (refused.value.code, refused.value.detail) == ("gpu_memory_leaked", f"{A}: 20.0 GiB held by no process")


async def test_memory_that_is_freed_in_time_is_waited_for() -> None:
    answers = [GpuReport((gpu(A, used=20 * GIB),)), GpuReport((gpu(A),))]

    async def read() -> GpuReport:
        return answers.pop(0)

    gpus = GpuChoice(lambda: answers[-1], read)

    await gpus.require_free((A,), share=0.9)

    assert answers == []


def desired(**settings: Any) -> Desired:
    return Desired(deployment="dep_1", model="m", engine="vllm", desired="running", settings=settings)


def test_the_pools_settings_say_which_share_of_the_machine() -> None:
    wanted = desired(gpu_uuids=[A, B], tensor_parallel_size=2, gpu_memory_utilization=0.5)

    assert vllm_flags.wanted_uuids(wanted) == (A, B)
    assert vllm_flags.gpus_wanted(wanted) == 2
    assert vllm_flags.requested(wanted)[-2:] == ["--tensor-parallel-size", "2"]


@pytest.mark.parametrize(
    "settings",
    [
        {"gpu_uuids": ["0"]}, {"gpu_uuids": "GPU-0000000a"}, {"gpu_uuids": []}, {"gpu_uuids": [A] * 9},
        {"gpu_memory_utilization": 1.5}, {"gpu_memory_utilization": True}, {"tensor_parallel_size": 3},
        {"trust_remote_code": True}, {"path": "/etc"},
    ],
)  # fmt: skip
def test_other_settings_are_refused(settings: dict[str, Any]) -> None:
    code, _ = refusal(lambda: vllm_flags.requested(desired(**settings)))

    assert code == "engine_argument_refused"
