"""What a machine can and cannot do follows from its checks."""

from typing import Any

from poolhouse_agent.checks.abilities import Ability, abilities
from poolhouse_agent.checks.result import Result, Status, ok, trouble

WELL = [ok("system", "Linux"), ok("python", "3.11"), ok("state", "there"), ok("engine", "vLLM 0.32.0")]


def gpu(uuid: str, **evidence: Any) -> Result:
    return ok("gpu", "a card", uuid=uuid, **evidence)


def found(*results: Result) -> dict[str, Ability]:
    return {one.id: one for one in abilities([*WELL, *results])}


def test_a_good_machine_can_serve() -> None:
    can = found(gpu("GPU-1"))

    assert (can["join"].is_possible, can["serve_vllm"].is_possible, can["serve_vllm"].why) == (True, True, "")


def test_one_good_gpu_is_enough() -> None:
    assert found(trouble("gpu", Status.FAIL, "gpu_is_lost", "GPU-1"), gpu("GPU-2"))["serve_vllm"].is_possible


def test_a_gpu_that_fails_does_not_help_by_being_read() -> None:
    can = found(trouble("gpu", Status.FAIL, "ecc_uncorrected", "GPU-1"), gpu("GPU-1"))

    assert not can["serve_vllm"].is_possible
    assert can["serve_vllm"].why == "Uncorrected memory errors: GPU-1 [ecc_uncorrected]"


def test_without_an_engine_nothing_is_served_and_joining_is_possible() -> None:
    missing = trouble("engine", Status.WARN, "engine_missing", "no program vllm")

    can = {one.id: one for one in abilities([*WELL[:3], gpu("GPU-1"), missing])}

    assert can["join"].is_possible
    assert not can["serve_vllm"].is_possible
    assert "engine_missing" in can["serve_vllm"].why


def test_an_old_python_can_do_nothing() -> None:
    old = trouble("python", Status.FAIL, "python_unsupported", "3.9")

    assert not any(one.is_possible for one in abilities([WELL[0], old, *WELL[2:], gpu("GPU-1")]))
