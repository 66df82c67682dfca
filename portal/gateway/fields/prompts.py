"""Bare prompts: a text, a list of texts, a list of token ids or a list of such lists, and what bounds their tokens."""

from dataclasses import dataclass
from typing import Final

from portal.catalog.rules.tokenizers import MAX_ADDED_TOKENS
from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import invalid, too_long
from portal.gateway.fields import values

MAX_TOKEN_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts as a node gets them. `tokens` bounds them all; None: only counting can."""

    value: object
    count: int
    tokens: int | None

    @property
    def opening(self) -> str:
        """Return the text of the first prompt; empty for token ids."""
        first = self.value[0] if isinstance(self.value, list) and self.value else self.value
        return first if isinstance(first, str) else ""


def read(value: object, param: str, *, model: ModelEntry, longest: int, added_tokens: int | None) -> Prompts:
    """Return the prompts; a tokenizer adds `added_tokens` to a text, None where its bytes bound nothing.

    Raises ApiError.
    """
    if isinstance(value, str):
        return Prompts(value, 1, _bound([_text(value, param)], added_tokens))
    rows = values.array(value, param, longest=max(longest, model.context_tokens), shortest=1)
    if type(rows[0]) is int:
        return Prompts(rows, 1, _ids(rows, param, model))
    if len(rows) > longest:
        raise invalid(f"{param} has {len(rows)} prompts; at most {longest}.", param=param)
    if isinstance(rows[0], list):
        sizes = [_ids(row, f"{param}[{index}]", model) for index, row in enumerate(rows)]
        return Prompts(rows, len(rows), sum(sizes))
    texts = [_text(values.text(row, f"{param}[{index}]"), f"{param}[{index}]") for index, row in enumerate(rows)]
    return Prompts(texts, len(texts), _bound(texts, added_tokens))


def most_added(model: ModelEntry) -> int | None:
    """Return how many tokens a chat model's tokenizer may add to a bare text; None where it is not known here."""
    return None if model.tokenizer_sha256 is None else MAX_ADDED_TOKENS


def _text(value: str, param: str) -> str:
    if not value:
        raise invalid(f"{param} is empty.", param=param)
    return value


def _bound(texts: list[str], added_tokens: int | None) -> int | None:
    if added_tokens is None:
        return None
    return sum(len(text.encode()) for text in texts) + added_tokens * len(texts)


def _ids(value: object, param: str, model: ModelEntry) -> int:
    rows = values.array(value, param, longest=2**31, shortest=1)
    if len(rows) >= model.context_tokens:
        raise too_long(len(rows), model.context_tokens, param=param)
    for row in rows:
        if type(row) is not int or not 0 <= row <= MAX_TOKEN_ID:
            raise invalid(f"{param} must hold token ids or texts, not a mixture.", param=param)
    return len(rows)
