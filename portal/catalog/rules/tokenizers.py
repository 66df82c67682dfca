"""Reads a tokenizer.json far enough to say whether it bounds tokens by bytes, and what it adds to each text."""

import json

from portal.core.errors import InvalidValue

MAX_TOKENIZER_BYTES = 64 * 1024 * 1024
# More than any tokenizer puts around a text; a bound of a bare prompt counts so many for it.
MAX_ADDED_TOKENS = 8
_HARMLESS_NORMALIZERS = frozenset({"NFC", "Strip", "StripAccents", "Lowercase"})
# WordPiece cuts words into pieces of at least one character each; these steps add none.
_BERT_NORMALIZERS = _HARMLESS_NORMALIZERS | {"BertNormalizer"}
_ADDED = {"ByteLevel": 0, "BertProcessing": 2, "RobertaProcessing": 2}
_SPLITTERS = frozenset({"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits"})


class TokenizerInvalid(InvalidValue):
    """The file is not a tokenizer.json."""

    code = "tokenizer_invalid"


def require_tokenizer(content: bytes) -> dict[str, object]:
    """Return the parsed tokenizer.json. Raises TokenizerInvalid."""
    if len(content) > MAX_TOKENIZER_BYTES:
        raise TokenizerInvalid(f"a tokenizer is at most {MAX_TOKENIZER_BYTES} bytes", param="tokenizer")
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TokenizerInvalid(f"the tokenizer is not JSON: {error}"[:200], param="tokenizer") from error
    if not isinstance(parsed, dict):
        raise TokenizerInvalid("the tokenizer is not a JSON object", param="tokenizer")
    model = parsed.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        raise TokenizerInvalid("the tokenizer has no vocabulary; upload the model's tokenizer.json", param="tokenizer")
    return parsed


def is_bounded_by_bytes(tokenizer: dict[str, object]) -> bool:
    """Tell whether a text never has more tokens than bytes: pieces of whole bytes or characters, and no added text."""
    normalizers = _kinds(tokenizer.get("normalizer"), inner="normalizers")
    if _has_byte_level(tokenizer.get("pre_tokenizer")):
        return all(kind in _HARMLESS_NORMALIZERS for kind in normalizers)
    model = tokenizer.get("model")
    if not isinstance(model, dict) or model.get("type") != "WordPiece":
        return False
    splitters = _kinds(tokenizer.get("pre_tokenizer"), inner="pretokenizers")
    return all(kind in _BERT_NORMALIZERS for kind in normalizers) and all(kind in _SPLITTERS for kind in splitters)


def added_tokens(tokenizer: dict[str, object]) -> int | None:
    """Return how many tokens are put around each text; None where the file does not say so in a known way."""
    return _added(tokenizer.get("post_processor"))


def _added(step: object) -> int | None:
    if step is None:
        return 0
    if not isinstance(step, dict):
        return None
    kind = step.get("type")
    if kind in _ADDED:
        return _ADDED[str(kind)]
    if kind == "TemplateProcessing" and isinstance(step.get("single"), list):
        return sum(isinstance(piece, dict) and "SpecialToken" in piece for piece in step["single"])
    if kind == "Sequence" and isinstance(step.get("processors"), list):
        parts = [_added(part) for part in step["processors"]]
        return None if None in parts else sum(part or 0 for part in parts)
    return None


def _has_byte_level(step: object) -> bool:
    if not isinstance(step, dict):
        return False
    if step.get("type") == "ByteLevel":
        return not step.get("add_prefix_space", False)
    inner = step.get("pretokenizers")
    return isinstance(inner, list) and any(_has_byte_level(part) for part in inner)


def _kinds(step: object, *, inner: str) -> list[str]:
    if not isinstance(step, dict):
        return []
    parts = step.get(inner)
    if isinstance(parts, list):
        return [kind for part in parts for kind in _kinds(part, inner=inner)]
    return [str(step.get("type"))]
