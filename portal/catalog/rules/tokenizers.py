"""Reads a tokenizer.json far enough to say whether it bounds tokens by bytes."""

import json

from portal.core.errors import InvalidValue

MAX_TOKENIZER_BYTES = 64 * 1024 * 1024
_HARMLESS_NORMALIZERS = frozenset({"NFC", "Strip", "StripAccents", "Lowercase"})


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
    """Tell whether a text never has more tokens than bytes: byte-level pieces, and no step that adds text."""
    if not _has_byte_level(tokenizer.get("pre_tokenizer")):
        return False
    return all(kind in _HARMLESS_NORMALIZERS for kind in _kinds(tokenizer.get("normalizer")))


def _has_byte_level(step: object) -> bool:
    if not isinstance(step, dict):
        return False
    if step.get("type") == "ByteLevel":
        return not step.get("add_prefix_space", False)
    inner = step.get("pretokenizers")
    return isinstance(inner, list) and any(_has_byte_level(part) for part in inner)


def _kinds(step: object) -> list[str]:
    if not isinstance(step, dict):
        return []
    inner = step.get("normalizers")
    if isinstance(inner, list):
        return [kind for part in inner for kind in _kinds(part)]
    return [str(step.get("type"))]
