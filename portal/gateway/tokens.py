"""Counts tokens with the model's own tokenizer and chat template: short texts at once, long ones in a few threads.

Where there is no tokenizer, it cannot be read now, or the queue is full, the answer is None and bytes bound the tokens.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

from portal.catalog.rules.rendering import RenderingRefused
from portal.gateway.artefacts import ArtefactMissing, Artefacts, ReadArtefact
from portal.gateway.contracts import ModelEntry
from portal.gateway.counts import Counter, Counts, Delivered, TextTooLong
from portal.gateway.threads import close_connections

__all__ = ["Counts", "Delivered", "TextTooLong", "TokenCounters"]

T = TypeVar("T")

_THREADS: Final = 2
_QUEUE: Final = 1024
_BATCH: Final = 16
# Below this the way to a thread and back costs more than the count, a quarter of a millisecond at most.
_SHORT_BYTES: Final = 1_024


class TokenCounters:
    """One object a process. Artefacts are read once and kept by their hash."""

    def __init__(self, *, read_artefact: ReadArtefact | None = None, queue: int = _QUEUE) -> None:
        self._pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="tokens")
        self._counter = Counter(Artefacts(read_artefact))
        self._room = queue
        self._free_threads = _THREADS
        self._jobs: list[_Job] = []

    def stop(self) -> None:
        """End the threads after what they count now."""
        close_connections(self._pool, _THREADS)
        self._pool.shutdown(wait=False)

    async def count(
        self, model: ModelEntry, body: Mapping[str, Any], delivered: Delivered, *, prompt: int | None = None
    ) -> Counts | None:
        """Count an attempt: its prompt, unless that was counted before, and what it delivered."""
        if model.tokenizer_sha256 is None:
            return None
        size = sum(map(len, delivered.texts))
        if size <= _SHORT_BYTES and self._counter.has(model):
            if prompt is None:
                prompt, unknown = self._counter.known_prompt(model, body)
                size += unknown
            if size <= _SHORT_BYTES:
                return self._counter.count(model, body, delivered, prompt)
        return await self._run(lambda: self._counter.count(model, body, delivered, prompt))

    async def each(self, model: ModelEntry, texts: Sequence[str]) -> list[int] | None:
        """Count the tokens of each text."""
        if model.tokenizer_sha256 is None:
            return None
        return await self._run(lambda: self._counter.texts(model, texts))

    async def prompts(self, model: ModelEntry, bodies: Sequence[Mapping[str, Any]]) -> list[int | None] | None:
        """Count each body's prompt; None for one that the template refuses."""
        if model.tokenizer_sha256 is None:
            return None
        return await self._run(lambda: [self._counter.prompt_or_none(model, body) for body in bodies])

    async def rendered_bytes(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        """Return the bytes of the prompt as the model's template renders it. Raises RenderingRefused."""
        if model.template_sha256 is None:
            return None
        return await self._run(lambda: self._counter.rendered_bytes(model, body))

    async def prompt_tokens(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        """Return the exact tokens of the prompt. Raises RenderingRefused."""
        if model.tokenizer_sha256 is None:
            return None
        return await self._run(lambda: self._counter.prompt(model, body))

    async def ids(self, model: ModelEntry, body: Mapping[str, Any], *, longest_bytes: int) -> list[int] | None:
        """Return the ids of the prompt or the rendered messages; None where they cannot be had now.

        Raises TextTooLong, RenderingRefused.
        """
        if model.tokenizer_sha256 is None:
            return None
        return await self._run(lambda: self._counter.ids(model, body, longest_bytes))

    async def _run(self, work: Callable[[], T]) -> T | None:
        """Do the work in a thread, with all other work that came in the same moment: one way there for all of it."""
        if self._room <= 0:
            return None
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        self._jobs.append(job)
        self._room -= 1
        if len(self._jobs) == 1:
            loop.call_soon(self._send)
        try:
            return cast("T | None", await job.answer)
        finally:
            self._room += 1

    def _send(self) -> None:
        """Give free threads what waits; what finds none free goes with the next that returns."""
        while self._jobs and self._free_threads:
            batch, self._jobs = self._jobs[:_BATCH], self._jobs[_BATCH:]
            self._free_threads -= 1
            running = asyncio.get_running_loop().run_in_executor(self._pool, _do_all, batch)
            running.add_done_callback(partial(self._receive, batch))

    def _receive(self, batch: "list[_Job]", running: "asyncio.Future[list[object]]") -> None:
        self._free_threads += 1
        failure = None if running.cancelled() else running.exception()
        answers = [failure] * len(batch) if failure or running.cancelled() else running.result()
        for job, answer in zip(batch, answers, strict=True):
            if job.answer.done():
                continue
            if isinstance(answer, BaseException):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)
        self._send()


@dataclass(slots=True)
class _Job:
    """Work for a thread and where its answer goes."""

    work: Callable[[], object]
    answer: asyncio.Future[object]


def _do_all(batch: list[_Job]) -> list[object]:
    """Return each job's answer, or the refusal that is its answer; any other fault fails the whole batch."""
    answers: list[object] = []
    for job in batch:
        try:
            answers.append(job.work())
        except ArtefactMissing:
            answers.append(None)
        except (RenderingRefused, TextTooLong) as refusal:
            answers.append(refusal)
    return answers
