"""What customers feel: the first token, the time between tokens, prefill and decode apart, and how many at once."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from poolhouse_common.check_entries.serving import ITL_TARGET_MS, TTFT_TARGET_MS

from poolhouse_agent.benchmarks import asking, figures
from poolhouse_agent.benchmarks.asking import Answered, EngineBusy
from poolhouse_agent.benchmarks.lengths import Lengths
from poolhouse_agent.benchmarks.prompts import Prompts
from poolhouse_agent.benchmarks.step import Say
from poolhouse_agent.checks.result import Result, Status, measured, ok, trouble
from poolhouse_agent.engine import readiness
from poolhouse_agent.engine.readiness import Proof
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError

_PROMPTS = (128, 512, 2048, 8192)
_MIDDLE = 512
_AT_ONCE = (1, 4, 16, 64, 256)
_ROOM = 0.8  # of the context for the prompt
_SPENT_SHARE = 0.5  # of the time for the table; the rest is for the search
# After a refusal: how often, and after which pause, the engine is asked whether it has room again.
_CALM_TRIES = 50
_CALM_S = 0.1


@dataclass(slots=True)
class ServingBenchmark:
    """Measures one model. `spent` is what the engine counted for it, to be taken off the node's own figures."""

    http: aiohttp.ClientSession
    target: Target
    context_tokens: int
    lengths: Lengths
    seed: int = field(default_factory=time.time_ns)
    spent: Proof = field(default_factory=lambda: Proof(0, 0))
    _until: float = 0.0

    async def run(self, say: Say) -> list[Result]:
        """Return the results of all `engine.…` checks that could be made."""
        model, loop = self.target.served_name, asyncio.get_running_loop()
        self._until = loop.time() + self.lengths.serving_s
        prompts = Prompts(seed=self.seed)
        try:
            plain = await readiness.generate(self.http, self.target)
            self._note(plain.prompt_tokens, plain.completion_tokens)
            if not plain.completion_tokens:
                return [_answers(model, prompt_tokens=plain.prompt_tokens, is_embedding=True)]
            smoke = await self._smoke(prompts)
            say(0.1)
            table = await self._table(prompts, say)
            prefill = await self._prefill(prompts)
            say(0.6)
            search = await self._search(prompts, say)
        except EngineError as error:
            found = trouble("engine.smoke", Status.FAIL, error.code, f"{model}: {error.detail}")
            return [replace(found, subject=model)]
        say(1.0)
        return [smoke, *_figures(model, table, prefill, search)]

    async def _smoke(self, prompts: Prompts) -> Result:
        """Two streamed chats; from their counts follows what a word costs in tokens. Raises EngineError."""
        short, long = prompts.of(32), prompts.of(min(256, self._longest()))
        first, second = await self._ask(short, 4), await self._ask(long, 4)
        prompts.learn(short=(len(short.split()), first.prompt_tokens), long=(len(long.split()), second.prompt_tokens))
        return _answers(
            self.target.served_name,
            first_token_ms=round(1000 * first.first_s, 2),
            completion_tokens=first.completion_tokens,
        )

    async def _table(self, prompts: Prompts, say: Say) -> list[dict[str, Any]]:
        """Measure each prompt length with each number of requests at once, as long as there is time.

        Raises EngineError, EngineBusy too where it refuses even one request alone.
        """
        cells = [(length, count) for count in self._counts() for length in self._prompt_lengths()]
        rows: list[dict[str, Any]] = []
        for number, (length, count) in enumerate(cells):
            if rows and self._is_over(_SPENT_SHARE):
                break
            total = max(count, min(self.lengths.answers, 4 * count))
            try:
                answers = await self._load(prompts, length, count, total)
            except EngineBusy:
                if not rows:
                    raise
                break  # more at once would be refused too
            rows.append({"prompt": length, "at_once": count, **figures.summary(answers)})
            say(0.1 + 0.4 * (number + 1) / len(cells))
        return rows

    async def _prefill(self, prompts: Prompts) -> dict[str, Any]:
        """Read long new prompts one after the other, with one token of answer each."""
        length = self._prompt_lengths()[-1]
        answers = [await self._ask(prompts.of(length), 1) for _ in range(3)]
        best = max(one.prompt_tokens / max(one.first_s, 1e-6) for one in answers)
        return {"prompt_tokens": answers[0].prompt_tokens, "tokens_per_s": round(best, 1)}

    async def _search(self, prompts: Prompts, say: Say) -> dict[str, Any]:
        """Find the most requests at once that keep the targets: double until they fail, then halve the gap."""
        length, good, bad = min(_MIDDLE, self._longest()), 0, 0
        tried: dict[int, list[Answered]] = {}
        most = self.target.max_concurrency
        count = 1
        while count != good and not self._is_over(1.0):
            is_kept = await self._try(prompts, length, count, tried)
            good, bad = (count, bad) if is_kept else (good, count)
            count = min(most, good * 2) if not bad else (good + bad) // 2
            say(0.6 + 0.4 * good / most)
        rates = {at_once: figures.decode_rate(answers) for at_once, answers in tried.items()}
        return {"at_once": good, "most_allowed": most, "was_cut_short": self._is_over(1.0), "prompt": length,
                "decode_tokens_per_s": round(max(rates.values(), default=0.0), 1),
                "tried": [{"at_once": at_once, **figures.summary(tried[at_once])} for at_once in sorted(tried)],
                }  # fmt: skip

    async def _try(self, prompts: Prompts, length: int, count: int, tried: dict[int, list[Answered]]) -> bool:
        """Tell whether so many requests at once keep the targets; an engine that refuses some keeps none."""
        try:
            tried[count] = await self._load(prompts, length, count, count)
        except EngineBusy:
            return False
        return _keeps(tried[count])

    async def _load(self, prompts: Prompts, length: int, at_once: int, total: int) -> list[Answered]:
        """Keep `at_once` requests running until `total` are answered. Raises EngineError."""
        waiting, answers = [prompts.of(length) for _ in range(total)], []

        async def work() -> None:
            while waiting:
                answers.append(await self._ask(waiting.pop(), self._output()))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_once):
                    group.create_task(work())
        except BaseExceptionGroup as failures:
            known, _ = failures.split(EngineError)
            if known is not None and isinstance(known.exceptions[0], EngineBusy):
                await self._calm(prompts)
            raise (known.exceptions[0] if known is not None else failures) from None
        return answers

    async def _calm(self, prompts: Prompts) -> None:
        """Wait until the requests that were given up have freed their places: what is measured next needs them."""
        for _ in range(_CALM_TRIES):
            try:
                await self._ask(prompts.of(16), 1)
            except EngineBusy:
                await asyncio.sleep(_CALM_S)
            else:
                return

    async def _ask(self, prompt: str, tokens: int) -> Answered:
        answered = await asking.ask(self.http, self.target, prompt, tokens=tokens)
        self._note(answered.prompt_tokens, answered.completion_tokens)
        return answered

    def _note(self, prompt_tokens: int, completion_tokens: int) -> None:
        self.spent = Proof(self.spent.prompt_tokens + prompt_tokens, self.spent.completion_tokens + completion_tokens)

    def _counts(self) -> Sequence[int]:
        return [count for count in _AT_ONCE if count <= self.target.max_concurrency]

    def _prompt_lengths(self) -> Sequence[int]:
        fitting = [length for length in _PROMPTS if length <= self._longest()]
        return fitting or [self._longest()]

    def _longest(self) -> int:
        return max(16, int(self.context_tokens * _ROOM) - self._output())

    def _output(self) -> int:
        return max(4, min(self.lengths.output_tokens, self.context_tokens // 8))

    def _is_over(self, share: float) -> bool:
        left_s = self._until - asyncio.get_running_loop().time()
        return left_s < self.lengths.serving_s * (1 - share)


def _answers(model: str, **evidence: Any) -> Result:
    return replace(ok("engine.smoke", f"{model} answers", **evidence), subject=model)


def _keeps(answers: Sequence[Answered]) -> bool:
    first = figures.percentile([one.first_s for one in answers], 95)
    gap = figures.percentile([one.inter_token_s for one in answers], 95)
    return 1000 * first <= TTFT_TARGET_MS and 1000 * gap <= ITL_TARGET_MS


def _figures(model: str, table: list[dict[str, Any]], prefill: dict[str, Any], search: dict[str, Any]) -> list[Result]:
    alone = [row for row in table if row["at_once"] == 1]
    middle = min(alone, key=lambda row: abs(row["prompt"] - _MIDDLE))
    decode = max([search["decode_tokens_per_s"], *(row["decode_tokens_per_s"] for row in table)])
    targets = {"first_token_ms": TTFT_TARGET_MS, "inter_token_ms": ITL_TARGET_MS}
    return [
        measured(
            "engine.first_token",
            middle["first_token_ms"]["p95"],
            subject=model,
            detail=model,
            evidence={"table": table},
        ),
        measured("engine.inter_token", middle["inter_token_ms"]["p95"], subject=model, detail=model),
        measured("engine.prefill", prefill["tokens_per_s"], subject=model, detail=model, evidence=prefill),
        measured("engine.decode", decode, subject=model, detail=model),
        measured(
            "engine.concurrency",
            search["at_once"],
            subject=model,
            detail=model,
            evidence={"targets": targets, **search},
        ),
    ]
