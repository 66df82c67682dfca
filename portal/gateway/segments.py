"""Counts a text's tokens piece by piece between its special tokens, so that what was counted before is not again.

A conversation comes back with every turn. Special tokens part it for the tokenizer too, before anything else looks at
the text, so that the pieces' counts add up to the whole's; where a tokenizer's own rules say otherwise, nothing is cut.
"""

import json
import os
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from tokenizers import Tokenizer

# One text at a time, in threads of ours: the library's own pool of threads would only get in the way.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

_MIN_KEPT_CHARS: Final = 64
_KEPT_COUNTS: Final = 20_000
_PLAIN: Final = {"lstrip": False, "rstrip": False, "single_word": False}


class KnownCounts:
    """Counts by digest, the oldest forgotten first. Safe to use from several threads: nothing spans two steps."""

    __slots__ = ("_counts", "_size")

    def __init__(self, size: int = _KEPT_COUNTS) -> None:
        self._counts: dict[bytes, int] = {}
        self._size = size

    def get(self, key: bytes) -> int | None:
        """Return what is known."""
        return self._counts.get(key)

    def keep(self, key: bytes, count: int) -> None:
        """Remember a count."""
        self._counts[key] = count
        if len(self._counts) > self._size:
            self._counts.pop(next(iter(self._counts), key), None)


class Segmented:
    """A tokenizer that counts. No text is kept, only digests of it."""

    def __init__(self, content: str) -> None:
        self._tokenizer = Tokenizer.from_str(content)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._cut = _cutter(json.loads(content))
        self._known = KnownCounts()

    def count(self, text: str) -> int:
        """Return the tokens of the text, with no special tokens added."""
        if len(text) < _MIN_KEPT_CHARS:
            return self._encoded(text)
        if self._cut is None:
            return self._counted(text)
        return sum(self._counted(piece) for piece in self._cut.split(text) if piece)

    def count_bare(self, text: str) -> int:
        """Return the tokens of a prompt that no template renders: the tokenizer adds its own special tokens."""
        return len(self._tokenizer.encode_batch_fast([text])[0])

    def ids(self, text: str, *, is_bare: bool) -> list[int]:
        """Return the token ids, with the tokenizer's own special tokens for a bare prompt."""
        found: list[int] = self._tokenizer.encode_batch_fast([text], add_special_tokens=is_bare)[0].ids
        return found

    def _counted(self, piece: str) -> int:
        if len(piece) < _MIN_KEPT_CHARS:
            return self._encoded(piece)
        key = blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        count = self._known.get(key)
        if count is None:
            count = self._encoded(piece)
            self._known.keep(key, count)
        return count

    def _encoded(self, text: str) -> int:
        # This call lets other threads run meanwhile, which `encode` does not, and keeps no offsets (a quarter cheaper).
        return len(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])


def _cutter(description: Mapping[str, Any]) -> re.Pattern[str] | None:
    """Return what cuts at special tokens; None where a piece's tokens could depend on its neighbours."""
    tokens = [row for row in description.get("added_tokens") or () if not row.get("normalized", False)]
    if not tokens or any(row.get(name, False) != value for row in tokens for name, value in _PLAIN.items()):
        return None
    if not _is_local(description.get("pre_tokenizer")) or not _is_composing(description.get("normalizer")):
        return None
    # Longest first: where two begin at one place the tokenizer takes the longer.
    words = sorted((str(row["content"]) for row in tokens), key=len, reverse=True)
    return re.compile("(" + "|".join(re.escape(word) for word in words) + ")")


def _is_composing(normalizer: Any) -> bool:
    """Tell whether it does nothing, or only composes characters, which it does piece by piece."""
    return normalizer is None or normalizer.get("type") == "NFC"


def _is_local(pre_tokenizer: Any) -> bool:
    """Tell whether it treats a piece alike wherever it stands: nothing is put before the first word of a text only."""
    if pre_tokenizer is None:
        return False
    kind = pre_tokenizer.get("type")
    if kind == "Sequence":
        return all(_is_local(part) for part in pre_tokenizer.get("pretokenizers", ()))
    if kind == "ByteLevel":
        return not pre_tokenizer.get("add_prefix_space", True)
    return kind in {"Split", "Digits"}
