"""What is demanded of the GPUs, all of one machine at once: a power supply that carries one may not carry four."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poolhouse_common.check_entries.gpu import DTYPES

from poolhouse_agent.benchmarks.lengths import Lengths
from poolhouse_agent.benchmarks.programs import Job, Outcome, Programs
from poolhouse_agent.benchmarks.samples import Sampler
from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.checks.result import Result, Status, measured, ok, skipped, trouble

_SLACK_S = 90.0  # to import PyTorch and start CUDA on a busy machine
_NOT_COUNTED = frozenset({"check_unsupported"})
_UNEVEN = 0.90


@dataclass(frozen=True, slots=True)
class Question:
    """One program put to each GPU: the checks that its findings answer, by the name of the finding."""

    checks: Mapping[str, str]
    program: str
    options: Mapping[str, Any]
    seconds: float
    title: str
    is_alone: bool = False  # GPUs one after the other: they share what is measured
    is_watched: bool = False


class GpuSuite:
    """The steps for some GPUs; `gpus` are of the inventory's report."""

    def __init__(
        self, gpus: Sequence[Mapping[str, Any]], *, programs: Programs, sampler: Sampler, lengths: Lengths
    ) -> None:
        self._gpus = gpus
        self._programs = programs
        self._sampler = sampler
        self._lengths = lengths

    def steps(self) -> list[Step]:
        """The steps in order; what takes longest comes last."""
        return [self._step(question) for question in self._questions()]

    def _questions(self) -> list[Question]:
        lengths = self._lengths
        both = {"to_device_gb_per_s": "gpu.pcie.to_device", "from_device_gb_per_s": "gpu.pcie.from_device"}
        return [
            Question({"": "gpu.start"}, "start", {}, 5, "CUDA starts"),
            Question({"percent": "gpu.vram"}, "fill", {"seed": 7}, 60, "memory holds data"),
            Question({"gb_per_s": "gpu.memory_bandwidth"}, "bandwidth", {}, 10, "memory bandwidth"),
            Question(both, "link", {}, 10, "copies over PCIe", is_alone=True),
            *(
                Question({"tflops": f"gpu.matmul.{dtype}"}, "product", {"dtype": dtype, "seconds": lengths.product_s},
                         lengths.product_s, f"matrix product, {dtype}", is_watched=True)
                for dtype in DTYPES
            ),
            Question({"": "gpu.repeat"}, "repeat", {"times": lengths.repeats}, 10, "the same bits again"),
            Question({"percent": "gpu.soak"}, "soak", {"seconds": lengths.soak_s}, lengths.soak_s,
                     "speed under lasting load", is_watched=True),
        ]  # fmt: skip

    def _step(self, question: Question) -> Step:
        async def work(say: Say) -> list[Result]:
            return await self._ask_all(question, say)

        return Step(next(iter(question.checks.values())), question.title, question.seconds, work, takes_gpus=True)

    async def _ask_all(self, question: Question, say: Say) -> list[Result]:
        shares = _Shares(len(self._gpus), say)
        asks = [self._ask(question, gpu, shares.of(number)) for number, gpu in enumerate(self._gpus)]
        if question.is_alone:
            answers = [await ask for ask in asks]
        else:
            answers = await asyncio.gather(*asks)
        results = [result for answer in answers for result in answer]
        return _with_uneven(results, self._gpus) if question.program == "product" else results

    async def _ask(self, question: Question, gpu: Mapping[str, Any], say: Say) -> list[Result]:
        job = Job(question.program, [gpu["uuid"]], question.options, question.seconds + _SLACK_S)
        if not question.is_watched:
            return _results(question, gpu, await self._programs.run(job, say), {})
        async with self._sampler.watching(gpu["uuid"]) as samples:
            outcome = await self._programs.run(job, say)
        return _results(question, gpu, outcome, {"samples": samples})


def _results(question: Question, gpu: Mapping[str, Any], outcome: Outcome, more: Mapping[str, Any]) -> list[Result]:
    evidence = {**outcome.found, **outcome.evidence, **more, "gpu": gpu["name"], "driver": gpu["driver"]}
    return [_result(check, name, gpu, outcome, evidence) for name, check in question.checks.items()]


def _result(check: str, name: str, gpu: Mapping[str, Any], outcome: Outcome, evidence: Mapping[str, Any]) -> Result:
    subject = str(gpu["uuid"])
    if outcome.code in _NOT_COUNTED:
        return skipped(check, outcome.detail, code=outcome.code, subject=subject)
    if outcome.code:
        found = trouble(check, Status.FAIL, outcome.code, outcome.detail, **evidence)
        return replace(found, subject=subject)
    if not name:
        return replace(ok(check, str(gpu["name"]), **evidence), subject=subject)
    return measured(check, float(outcome.found[name]), subject=subject, detail=str(gpu["name"]), evidence=evidence)


def _with_uneven(results: list[Result], gpus: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Warn of a GPU that is more than a tenth slower than the best of its kind in this machine."""
    names = {gpu["uuid"]: gpu["name"] for gpu in gpus}
    best: dict[str, float] = {}
    for result in results:
        name = names.get(result.subject, "")
        best[name] = max(best.get(name, 0.0), result.figure or 0.0)
    return [_uneven(result, best[names.get(result.subject, "")]) for result in results]


def _uneven(result: Result, best: float) -> Result:
    if result.status is not Status.OK or result.figure is None or result.figure >= _UNEVEN * best:
        return result
    detail = f"{result.detail}: {result.figure:.4g} {result.unit}, the best here {best:.4g}"
    found = trouble(result.id, Status.WARN, "gpu_uneven", detail, **result.evidence)
    return replace(found, subject=result.subject, figure=result.figure, unit=result.unit)


class _Shares:
    """The mean of how far several are."""

    def __init__(self, count: int, say: Say) -> None:
        self._done = [0.0] * count
        self._say = say

    def of(self, number: int) -> Callable[[float], None]:
        def say(share: float) -> None:
            self._done[number] = share
            self._say(sum(self._done) / len(self._done))

        return say
