"""The short way from a node's event to the customer's gives the very bytes of the long way, or stands aside."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from portal.gateway import rewrite
from portal.gateway.dialects.base import Names
from portal.gateway.dialects.chat import ChatDialect
from portal.gateway.failures import NodeFailed

_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-1, 2), st.text(max_size=3))
_DELTAS = st.one_of(
    st.fixed_dictionaries({"content": st.text(max_size=20)}),
    st.dictionaries(
        st.sampled_from(["content", "role", "reasoning", "tool_calls", "refusal", "odd"]), _SCALARS, max_size=3
    ),
    _SCALARS,
)
_ROWS = st.fixed_dictionaries(
    {"delta": _DELTAS},
    optional={
        "index": st.one_of(st.just(0), _SCALARS),
        "logprobs": st.one_of(st.none(), st.just({"content": []})),
        "finish_reason": st.sampled_from([None, None, "stop", "odd", 3]),
        "stop_reason": _SCALARS,
    },
)
_EVENTS = st.fixed_dictionaries({"choices": st.one_of(st.lists(st.one_of(_ROWS, _SCALARS), max_size=2), _SCALARS)})


def _long_way(
    event: dict[str, Any], names: Names, dialect: ChatDialect
) -> tuple[bytes, list[tuple[int, str]], int] | None:
    try:
        found = rewrite.chunk(event, names)
    except NodeFailed:
        return None
    return dialect.delta(found.choices), found.texts, found.finished


@given(event=_EVENTS, choices=st.integers(1, 2), has_logprobs=st.booleans(), wants_usage=st.booleans())
def test_a_plain_text_is_written_as_the_long_way_would(event, choices, has_logprobs, wants_usage):
    names = Names("chatcmpl-1", 1_700_000_000, 'acme/"chat"', choices, has_logprobs)
    dialect = ChatDialect(names, currency="usd", wants_usage=wants_usage)

    text = rewrite.plain_text(event, names)

    if text is not None:
        assert (dialect.text(text), [(0, text)], 0) == _long_way(event, names, dialect)


@given(text=st.text(min_size=1, max_size=50), usage=st.booleans())
def test_what_nearly_all_events_are_takes_the_short_way(text, usage):
    names = Names("chatcmpl-1", 1_700_000_000, "acme/chat", 1, has_logprobs=False)
    row = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None, "token_ids": None}
    event = {"id": "theirs", "choices": [row]} | ({"usage": {"completion_tokens": 1}} if usage else {})

    assert rewrite.plain_text(event, names) == text
