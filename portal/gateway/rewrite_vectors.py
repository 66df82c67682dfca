"""A node's embeddings in our words: the right number of vectors, each of the right length, all numbers finite."""

import binascii
import math
import struct
from collections.abc import Iterable
from typing import Any, Final

from portal.gateway.dialects.base import Names
from portal.gateway.failures import broke
from portal.gateway.rewrite import Generated

_FLOAT_BYTES: Final = 4
_NUMBERS: Final = frozenset({float, int})


def chunk(value: dict[str, Any], names: Names) -> Generated:
    """Embeddings are not streamed. Raises NodeFailed."""
    del value, names
    raise broke("answer_streamed")


def answer(value: dict[str, Any], names: Names) -> Generated:
    """Rebuild a whole answer. Raises NodeFailed."""
    rows = value.get("data")
    if not isinstance(rows, list) or len(rows) != names.choices:
        raise broke("answer_incomplete")
    vectors: dict[int, object] = {}
    for row in rows:
        if not isinstance(row, dict):
            raise broke("choice_not_an_object")
        index = row.get("index")
        if type(index) is not int or not 0 <= index < names.choices or index in vectors:
            raise broke("choice_index")
        vectors[index] = (_packed if names.is_base64 else _listed)(row.get("embedding"), names.vector_length)
    choices = [{"object": "embedding", "index": index, "embedding": vectors[index]} for index in range(names.choices)]
    return Generated(choices=choices, vectors=len(choices))


def _listed(value: object, length: int) -> object:
    if not isinstance(value, list) or len(value) != length or not _NUMBERS.issuperset(map(type, value)):
        raise broke("vector_malformed")
    _require_finite(value)
    return value


def _packed(value: object, length: int) -> object:
    if not isinstance(value, str):
        raise broke("vector_malformed")
    try:
        raw = binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise broke("vector_malformed") from error
    if len(raw) != length * _FLOAT_BYTES:
        raise broke("vector_malformed")
    _require_finite(struct.unpack(f"<{length}f", raw))
    return value


def _require_finite(numbers: Iterable[float]) -> None:
    # A sum of 32-bit floats cannot overflow a double, and keeps what is not finite in it.
    if not math.isfinite(sum(numbers)):
        raise broke("vector_not_finite")
