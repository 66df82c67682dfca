"""The simulator's tokenizer and chat template: small, real, and the same as the portal's demo model."""

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

_FOLDER = Path(__file__).parent
END_TOKEN = "<|im_end|>"  # noqa: S105  a token of the vocabulary


class ChatTokens:
    """Turns messages into token ids, and token ids back into pieces of text."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(_FOLDER / "tokenizer.json"))
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
        environment.filters["tojson"] = _tojson
        self._template = environment.from_string((_FOLDER / "chat_template.jinja").read_text(encoding="utf-8"))
        self._bytes = _token_bytes(self._tokenizer)
        self.end_id: int = self.encode(END_TOKEN)[0]
        self.vocabulary = int(self._tokenizer.get_vocab_size())

    def prompt_ids(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None) -> list[int]:
        """The ids of the rendered conversation. Raises jinja2.TemplateError."""
        text = self._template.render(messages=messages, tools=tools, add_generation_prompt=True)
        return self.encode(text)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, special tokens recognised, none added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return b"".join(self._bytes[one] for one in ids).decode("utf-8", "replace")

    def token_bytes(self, one: int) -> bytes:
        """The bytes that one token stands for."""
        return self._bytes[one]

    def pieces(self, ids: Sequence[int]) -> Iterator[str]:
        """The text each token adds: empty for one that ends inside a character."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for one in ids:
            yield decoder.decode(self._bytes[one])


@cache
def shared() -> ChatTokens:
    """The one tokenizer of this process: it is the same for every simulated engine."""
    return ChatTokens()


def _tojson(value: object, indent: int | None = None) -> str:
    """JSON as chat templates expect it: readable, nothing escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    special = {one for one, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    table: list[bytes] = []
    for one in range(tokenizer.get_vocab_size()):
        token = tokenizer.id_to_token(one) or ""
        table.append(b"" if one in special else bytes(_alphabet()[character] for character in token))
    return table


@cache
def _alphabet() -> Mapping[str, int]:
    """The byte-level alphabet: printable bytes stand for themselves, the others are moved above 255."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in plain}
    moved = (byte for byte in range(256) if byte not in set(plain))
    table.update({chr(256 + offset): byte for offset, byte in enumerate(moved)})
    return table
