"""What an attempt's tokens are: the prompt as the model's template renders it, the texts that were delivered."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import orjson

from portal.catalog.rules import rendering
from portal.catalog.rules.rendering import RenderingRefused
from portal.core.records import record
from portal.gateway.artefacts import Artefacts, ChatTemplate
from portal.gateway.contracts import ModelEntry
from portal.gateway.segments import KnownCounts, Segmented

# What a tool call has around its name and arguments, in the templates that were looked at.
_TOOL_CALL_TOKENS: Final = 24


class TextTooLong(Exception):
    """The text has more bytes than may be turned into ids; its argument is how many."""


@record(frozen=True, slots=True)
class Counts:
    """Exact tokens of a prompt and of the delivered texts; `extra` are end and stop tokens nobody delivers."""

    prompt: int
    completion: int
    extra: int


@record(frozen=True, slots=True)
class Delivered:
    """What reached the customer: one text a choice, and how many choices ended."""

    texts: Sequence[str]
    finished_choices: int


class Counter:
    """Counts now, in the thread that asks. The same prompt again (a failover, a retry) costs a digest."""

    def __init__(self, artefacts: Artefacts) -> None:
        self._artefacts = artefacts
        self._prompts = KnownCounts()

    def has(self, model: ModelEntry) -> bool:
        """Tell whether nothing must be read first."""
        return self._artefacts.has(model)

    def count(
        self, model: ModelEntry, body: Mapping[str, Any], delivered: Delivered, prompt: int | None
    ) -> Counts | None:
        """Count an attempt; None where its template refuses the messages. Raises ArtefactMissing."""
        tokenizer = self._artefacts.tokenizer(model.tokenizer_sha256 or "")
        prompt = self.prompt_or_none(model, body) if prompt is None else prompt
        if prompt is None:
            return None
        ends = model.end_tokens + _stop_tokens(tokenizer, body) + (_TOOL_CALL_TOKENS if body.get("tools") else 0)
        completion = sum(tokenizer.count(text) for text in delivered.texts if text)
        return Counts(prompt, completion, delivered.finished_choices * ends)

    def known_prompt(self, model: ModelEntry, body: Mapping[str, Any]) -> tuple[int | None, int]:
        """Return the prompt's tokens where they were counted before, else about how many bytes must be counted."""
        if "messages" not in body:
            return None, len(orjson.dumps(body))
        written = _written(model, body)
        known = self._prompts.get(_digest(written))
        return (None, len(written)) if known is None else (known, 0)

    def texts(self, model: ModelEntry, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text. Raises ArtefactMissing."""
        tokenizer = self._artefacts.tokenizer(model.tokenizer_sha256 or "")
        return [tokenizer.count(text) if text else 0 for text in texts]

    def prompt_or_none(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        """Count the prompt; None where the template refuses the messages. Raises ArtefactMissing."""
        try:
            return self.prompt(model, body)
        except RenderingRefused:
            return None

    def prompt(self, model: ModelEntry, body: Mapping[str, Any]) -> int:
        """Count as vLLM does: a template writes its own special tokens, a bare prompt gets the tokenizer's.

        Raises RenderingRefused, ArtefactMissing.
        """
        tokenizer = self._artefacts.tokenizer(model.tokenizer_sha256 or "")
        if "messages" not in body:
            return sum(_bare(tokenizer, prompt) for prompt in _prompts(body))
        template = self._artefacts.template(model.template_sha256 or "")
        if not template.is_timeless:
            return tokenizer.count(_rendered(template, body))
        key = _digest(_written(model, body))
        count = self._prompts.get(key)
        if count is None:
            count = tokenizer.count(_rendered(template, body))
            self._prompts.keep(key, count)
        return count

    def ids(self, model: ModelEntry, body: Mapping[str, Any], longest_bytes: int) -> list[int]:
        """Return the ids of the prompt or messages. Raises TextTooLong, RenderingRefused, ArtefactMissing."""
        tokenizer = self._artefacts.tokenizer(model.tokenizer_sha256 or "")
        is_bare = "messages" not in body
        text = body["prompt"] if is_bare else _rendered(self._artefacts.template(model.template_sha256 or ""), body)
        size = len(text.encode())
        if size > longest_bytes:
            raise TextTooLong(size)
        return tokenizer.ids(text, is_bare=is_bare)

    def rendered_bytes(self, model: ModelEntry, body: Mapping[str, Any]) -> int:
        """Return the bytes of the rendered prompt. Raises RenderingRefused, ArtefactMissing."""
        return len(_rendered(self._artefacts.template(model.template_sha256 or ""), body).encode())


def _written(model: ModelEntry, body: Mapping[str, Any]) -> bytes:
    """Return all that decides the rendered prompt and its count."""
    asked = body["messages"], body.get("tools"), body.get("chat_template_kwargs")
    return orjson.dumps((model.tokenizer_sha256, model.template_sha256, *asked))


def _digest(written: bytes) -> bytes:
    return blake2b(written, digest_size=16).digest()


def _rendered(template: ChatTemplate, body: Mapping[str, Any]) -> str:
    return rendering.render_chat(
        template.compiled, messages=body["messages"], tools=body.get("tools"), extra=body.get("chat_template_kwargs")
    )


def _prompts(body: Mapping[str, Any]) -> list[Any]:
    """Return the prompts of a completion or embedding: each a text or a list of token ids."""
    value = body.get("prompt", body.get("input", ""))
    is_many = isinstance(value, list) and bool(value) and not isinstance(value[0], int)
    return list(value) if is_many else [value]


def _bare(tokenizer: Segmented, prompt: object) -> int:
    return len(prompt) if isinstance(prompt, list) else tokenizer.count_bare(str(prompt))


def _stop_tokens(tokenizer: Segmented, body: Mapping[str, Any]) -> int:
    """Return the tokens of the longest stop string: generated, claimed, and cut off before it is delivered."""
    stop = body.get("stop") or ()
    stops = [stop] if isinstance(stop, str) else stop
    return max((tokenizer.count(text) for text in stops), default=0)
