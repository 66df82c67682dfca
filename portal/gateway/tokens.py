"""Counts tokens with the model's own tokenizer and chat template, in a few threads behind a bounded queue.

Where there is no tokenizer, it cannot be read now, or the queue is full, the answer is None and bytes bound the tokens.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

from django.db import Error as DatabaseError
from django.db import close_old_connections
from jinja2 import Template
from tokenizers import Tokenizer

from portal.catalog.rules import rendering
from portal.catalog.rules.rendering import RenderingRefused, TemplateInvalid
from portal.catalog.selectors import for_gateway
from portal.gateway.contracts import ModelEntry
from portal.gateway.threads import close_connections

log = logging.getLogger(__name__)
T = TypeVar("T")

_THREADS: Final = 2
_QUEUE: Final = 1024
_BATCH: Final = 16
_RETRY_MISSING_S: Final = 5.0
_KEPT_ARTEFACTS: Final = 64
# What a tool call has around its name and arguments, in the templates that were looked at.
_TOOL_CALL_TOKENS: Final = 24

ReadArtefact = Callable[[str], bytes | None]


class ArtefactMissing(Exception):
    """The tokenizer or template is not there, or cannot be read now."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Exact tokens of a prompt and of the delivered texts; `extra` are end and stop tokens nobody delivers."""

    prompt: int
    completion: int
    extra: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """What reached the customer: one text a choice, and how many choices ended."""

    texts: Sequence[str]
    finished_choices: int


class TokenCounters:
    """One object a process. Artefacts are read once and kept by their hash."""

    def __init__(self, *, read_artefact: ReadArtefact | None = None, queue: int = _QUEUE) -> None:
        self._pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="tokens")
        self._artefacts = _Artefacts(read_artefact or _read_artefact)
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
        return await self._run(lambda: _count(self._artefacts, model, body, delivered, prompt))

    async def each(self, model: ModelEntry, texts: Sequence[str]) -> list[int] | None:
        """Count the tokens of each text."""
        sha256 = model.tokenizer_sha256
        if sha256 is None:
            return None
        return await self._run(lambda: [_encoded(self._artefacts.tokenizer(sha256), [text]) for text in texts])

    async def prompts(self, model: ModelEntry, bodies: Sequence[Mapping[str, Any]]) -> list[int | None] | None:
        """Count each body's prompt; None for one that the template refuses."""
        if model.tokenizer_sha256 is None:
            return None
        return await self._run(lambda: [_prompt_or_none(self._artefacts, model, body) for body in bodies])

    async def rendered_bytes(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        """Return the bytes of the prompt as the model's template renders it. Raises RenderingRefused."""
        sha256 = model.template_sha256
        if sha256 is None:
            return None
        return await self._run(lambda: len(_rendered(self._artefacts.template(sha256), body).encode()))

    async def prompt_tokens(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        """Return the exact tokens of the prompt. Raises RenderingRefused."""
        if model.tokenizer_sha256 is None:
            return None
        return await self._run(lambda: _prompt(self._artefacts, model, body))

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
        except RenderingRefused as refusal:
            answers.append(refusal)
    return answers


class _Artefacts:
    """Compiled tokenizers and templates, by hash; read in the counting threads."""

    def __init__(self, read: ReadArtefact) -> None:
        self._read = read
        self._tokenizers: dict[str, Tokenizer] = {}
        self._templates: dict[str, Template] = {}
        self._missing: dict[str, float] = {}

    def tokenizer(self, sha256: str) -> Tokenizer:
        found = self._tokenizers.get(sha256)
        if found is None:
            found = Tokenizer.from_str(self._content(sha256).decode())
            found.no_truncation()
            found.no_padding()
            _keep(self._tokenizers, sha256, found)
        return found

    def template(self, sha256: str) -> Template:
        found = self._templates.get(sha256)
        if found is None:
            try:
                found = rendering.compile_template(self._content(sha256).decode())
            except TemplateInvalid as error:
                raise ArtefactMissing(sha256) from error
            _keep(self._templates, sha256, found)
        return found

    def _content(self, sha256: str) -> bytes:
        now = time.monotonic()
        if now < self._missing.get(sha256, 0.0):
            raise ArtefactMissing(sha256)
        try:
            content = self._read(sha256)
        except DatabaseError as error:
            log.warning("tokens.artefact_not_read", extra={"sha256": sha256, "reason": type(error).__name__})
            content = None
        if content is None:
            self._missing[sha256] = now + _RETRY_MISSING_S
            raise ArtefactMissing(sha256)
        return content


def _keep(kept: dict[str, Any], sha256: str, value: object) -> None:
    while len(kept) >= _KEPT_ARTEFACTS:
        kept.pop(next(iter(kept)))
    kept[sha256] = value


def _read_artefact(sha256: str) -> bytes | None:
    close_old_connections()
    return for_gateway.artefact(sha256=sha256)


def _count(
    artefacts: _Artefacts, model: ModelEntry, body: Mapping[str, Any], delivered: Delivered, prompt: int | None
) -> Counts | None:
    tokenizer = artefacts.tokenizer(model.tokenizer_sha256 or "")
    prompt = _prompt_or_none(artefacts, model, body) if prompt is None else prompt
    if prompt is None:
        return None
    ends = model.end_tokens + _stop_tokens(tokenizer, body) + (_TOOL_CALL_TOKENS if body.get("tools") else 0)
    return Counts(prompt, _encoded(tokenizer, delivered.texts), delivered.finished_choices * ends)


def _prompt_or_none(artefacts: _Artefacts, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
    try:
        return _prompt(artefacts, model, body)
    except RenderingRefused:
        return None


def _prompt(artefacts: _Artefacts, model: ModelEntry, body: Mapping[str, Any]) -> int:
    """Count as vLLM does: a template writes its own special tokens, a bare prompt gets the tokenizer's."""
    tokenizer = artefacts.tokenizer(model.tokenizer_sha256 or "")
    if "messages" in body:
        text = _rendered(artefacts.template(model.template_sha256 or ""), body)
        return _encoded(tokenizer, [text])
    return sum(_bare(tokenizer, prompt) for prompt in _prompts(body))


def _rendered(template: Template, body: Mapping[str, Any]) -> str:
    return rendering.render_chat(
        template, messages=body["messages"], tools=body.get("tools"), extra=body.get("chat_template_kwargs")
    )


def _prompts(body: Mapping[str, Any]) -> list[Any]:
    """Return the prompts of a completion or embedding: each a text or a list of token ids."""
    value = body.get("prompt", body.get("input", ""))
    is_many = isinstance(value, list) and bool(value) and not isinstance(value[0], int)
    return list(value) if is_many else [value]


def _bare(tokenizer: Tokenizer, prompt: object) -> int:
    if isinstance(prompt, list):
        return len(prompt)
    return len(tokenizer.encode(str(prompt)).ids)


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    return sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts if text)


def _stop_tokens(tokenizer: Tokenizer, body: Mapping[str, Any]) -> int:
    """Return the tokens of the longest stop string: generated, claimed, and cut off before it is delivered."""
    stop = body.get("stop") or ()
    stops = [stop] if isinstance(stop, str) else stop
    return max((len(tokenizer.encode(text, add_special_tokens=False).ids) for text in stops), default=0)
