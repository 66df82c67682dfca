"""Counting piece by piece gives the tokenizer's own count, and a piece that comes back is not counted again."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from portal.gateway.segments import KnownCounts, Segmented

DEMO = (Path(__file__).parents[3] / "portal" / "sandbox" / "demo_model" / "tokenizer.json").read_text()
TOKENIZER = Tokenizer.from_str(DEMO)
_WORDS = st.sampled_from(
    [
        "The sea is deep and blue, ",
        "\n\n",
        "  ",
        "naïve café ",
        "日本語",
        "<|im_start|>",
        "<|im_end|>",
        "<|im_",
        "user\n",
        "'s",
        "1234",
    ]
)


def _changed(**changes: object) -> str:
    return json.dumps(json.loads(DEMO) | changes)


def _direct(text: str, content: str = DEMO) -> int:
    return len(Tokenizer.from_str(content).encode(text, add_special_tokens=False).ids)


@given(st.lists(st.one_of(_WORDS, st.text(max_size=40)), max_size=40).map("".join))
def test_pieces_add_up_to_the_whole(text):
    counter = Segmented(DEMO)

    assert counter.count(text) == len(TOKENIZER.encode(text, add_special_tokens=False).ids)
    assert counter.count(text) == len(TOKENIZER.encode(text, add_special_tokens=False).ids)


def _metaspace(scheme: str) -> dict[str, object]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"pre_tokenizer": _metaspace("first")},
        {"pre_tokenizer": _metaspace("always")},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
        {"pre_tokenizer": None},
        {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
        {"normalizer": {"type": "NFC"}},
        {"added_tokens": [row | {"lstrip": True} for row in json.loads(DEMO)["added_tokens"]]},
        {"added_tokens": []},
    ],
    ids=["first", "always", "prefix", "none", "strip", "nfc", "lstrip", "bare"],
)
def test_other_tokenizers_count_as_they_do_themselves(changes):
    content = _changed(**changes)
    text = "<|im_start|>user\n  The sea is deep é and blue, the sky is high. <|im_end|>\n <|im_start|> and more\n" * 2
    counter = Segmented(content)

    assert [counter.count(text), counter.count(text)] == [_direct(text, content)] * 2


def test_a_longer_special_token_wins_over_the_one_it_begins_with():
    rows = json.loads(DEMO)["added_tokens"]
    longer = rows[1] | {"id": rows[-1]["id"] + 10_000, "content": "<|im_start|>user"}
    content = _changed(added_tokens=[*rows, longer])
    text = "<|im_start|>user\nThe sea is deep and blue, the sky is high and so are we.<|im_end|>"

    assert Segmented(content).count(text) == _direct(text, content)


def test_the_oldest_count_is_forgotten_first():
    known = KnownCounts(size=2)

    for number, key in enumerate((b"a", b"b", b"c")):
        known.keep(key, number)

    assert [known.get(key) for key in (b"a", b"b", b"c")] == [None, 1, 2]
