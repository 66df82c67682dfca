"""Whether a tokenizer bounds tokens by bytes."""

import json

import pytest
from tokenizers.normalizers import BertNormalizer

from portal.catalog.rules import tokenizers
from portal.catalog.rules.tokenizers import TokenizerInvalid, added_tokens, is_bounded_by_bytes, require_tokenizer
from tests.factories.catalog import demo_tokenizer

WORDPIECE = {"type": "WordPiece", "vocab": {}}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False}


def tokenizer(**parts) -> dict:
    return {"model": {"type": "BPE", "vocab": {}}, "pre_tokenizer": BYTE_LEVEL, "normalizer": None, **parts}


def test_the_demo_tokenizer_is_bounded():
    assert is_bounded_by_bytes(require_tokenizer(demo_tokenizer()))


@pytest.mark.parametrize(
    ("parts", "bounded"),
    [
        ({}, True),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, BYTE_LEVEL]}}, True),
        ({"normalizer": {"type": "NFC"}}, True),
        ({"pre_tokenizer": None}, False),
        ({"pre_tokenizer": {"type": "Metaspace"}}, False),
        ({"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}}, False),
        ({"normalizer": {"type": "NFKC"}}, False),
        ({"normalizer": {"type": "Prepend", "prepend": "▁"}}, False),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace"}]}}, False),
        ({"model": WORDPIECE, "pre_tokenizer": {"type": "BertPreTokenizer"}}, True),
        ({"model": WORDPIECE, "pre_tokenizer": None, "normalizer": {"type": "BertNormalizer"}}, True),
        ({"model": WORDPIECE, "pre_tokenizer": {"type": "Metaspace"}}, False),
        ({"model": WORDPIECE, "pre_tokenizer": None, "normalizer": {"type": "NFKD"}}, False),
        ({"model": {"type": "Unigram", "vocab": []}, "pre_tokenizer": {"type": "BertPreTokenizer"}}, False),
    ],
)
def test_what_adds_text_is_not_bounded(parts, bounded):
    assert is_bounded_by_bytes(tokenizer(**parts)) is bounded


@pytest.mark.parametrize(
    ("post_processor", "added"),
    [
        (None, 0),
        ({"type": "ByteLevel"}, 0),
        ({"type": "BertProcessing"}, 2),
        ({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]}, 1),
        ({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "RobertaProcessing"}]}, 2),
        ({"type": "Sequence", "processors": [{"type": "Odd"}]}, None),
        ({"type": "Odd"}, None),
        ("odd", None),
    ],
)
def test_what_is_put_around_a_text_is_counted(post_processor, added):
    assert added_tokens(tokenizer(post_processor=post_processor)) == added


def test_no_character_grows_beyond_its_bytes_in_what_bert_normalizes():
    normalize = BertNormalizer(lowercase=True, strip_accents=True, clean_text=True, handle_chinese_chars=True)

    for code in [*range(0xD800), *range(0xE000, 0x110000, 7)]:
        character = chr(code)
        pieces = normalize.normalize_str(character).replace(" ", "")
        assert len(pieces) <= len(character.encode()), hex(code)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"model": 3}', b'{"model": {}}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_tokenizer_is_refused(content):
    with pytest.raises(TokenizerInvalid):
        require_tokenizer(content)


def test_a_tokenizer_may_name_its_pieces_in_a_list():
    content = json.dumps({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}).encode()

    assert require_tokenizer(content)["model"]["vocab"] == [["a", 0.0]]


def test_a_tokenizer_has_a_size(monkeypatch):
    monkeypatch.setattr(tokenizers, "MAX_TOKENIZER_BYTES", 10)

    with pytest.raises(TokenizerInvalid, match="at most 10 bytes"):
        require_tokenizer(b'{"model": {"vocab": {}}}')
