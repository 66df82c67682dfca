"""The body's JSON is refused by depth before anything is built from it."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.gateway import strict_json
from portal.gateway.errors import ApiError


def _nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_sixty_four_levels_are_read() -> None:
    assert strict_json.parse_object(_nested(64)) == orjson.loads(_nested(64))


@pytest.mark.parametrize(
    "body",
    [
        _nested(65),
        _nested(1_000),
        b'{"a":' + b"[" * 1_000 + b"]" * 1_000 + b"}",
        b'{"a":' + b"[{}," * 100 + b"[" * 65 + b"]" * 65 + b"]" * 100 + b"}",
        b"[" * 5_000_000,
        b'{"messages": [',
        b"",
        b"nonsense",
        b'{"a": NaN}',
        b'{"a": "\xff\xfe"}',
        b'{"a": "\\ud800"}',
    ],
)
def test_what_is_too_deep_or_broken_is_invalid_json(body: bytes) -> None:
    with pytest.raises(ApiError) as refusal:
        strict_json.parse_object(body)

    assert (refusal.value.status, refusal.value.code) == (400, "invalid_json")


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"1", b"null"])
def test_what_is_no_object_is_an_invalid_value(body: bytes) -> None:
    with pytest.raises(ApiError) as refusal:
        strict_json.parse_object(body)

    assert (refusal.value.status, refusal.value.code) == (400, "invalid_value")


def test_brackets_inside_strings_do_not_count() -> None:
    body = orjson.dumps({"text": '[{"' * 5_000, "wide": [[] for _ in range(5_000)]})

    assert strict_json.parse_object(body) == orjson.loads(body)


_LEAVES = st.none() | st.integers(-1000, 1000) | st.text(max_size=8)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max((_depth(item) for item in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(item) for item in value), default=0)
    return 0


@given(value=_VALUES, limit=st.integers(min_value=0, max_value=6))
def test_the_depth_found_is_the_depth_built(value: object, limit: int) -> None:
    assert strict_json.depth_exceeds(orjson.dumps(value), limit) == (_depth(value) > limit)
