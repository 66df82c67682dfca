"""Reads a model's config.json, as Hugging Face's transformers writes it, into a shape."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace

from poolhouse_common.planner import attention, parameters, quantization
from poolhouse_common.planner.errors import ConfigRefused
from poolhouse_common.planner.families import FAMILIES, UNPLANNED, Family
from poolhouse_common.planner.fields import Config, inner, number, positive, word, words
from poolhouse_common.planner.shape import ModelShape

MAX_CONFIG_BYTES = 1 << 20


def parse_config(content: bytes | str) -> dict[str, object]:
    """Return the JSON object of a config.json. Raises ConfigRefused."""
    if len(content) > MAX_CONFIG_BYTES:
        raise ConfigRefused("model_config_invalid", "config.json is larger than 1 MiB")
    try:
        parsed = json.loads(content, parse_constant=_no_number)
        again = json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ConfigRefused("model_config_invalid", "config.json is not JSON") from error
    if not isinstance(parsed, dict):
        raise ConfigRefused("model_config_invalid", "config.json is not an object")
    if b"\\u0000" in again:
        raise ConfigRefused("model_config_invalid", "config.json has a letter that cannot be stored")
    return parsed


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def read_shape(*, config: Mapping[str, object], weight_bytes: int = 0) -> ModelShape:
    """Return the shape of a model; `weight_bytes` is the sum of its safetensors files where it is known.

    Raises ConfigRefused with `model_config_invalid`, `architecture_unknown` or `quantization_unsupported`.
    """
    text = _text_config(config)
    name = word(text, "model_type") or word(config, "model_type")
    family = _family(name)
    format_ = _format(config, text)
    layers = attention.layers_of(text, family)
    parts = parameters.parts_of(text, family=family, layers=layers, quantization=format_)
    seeing = parameters.vision_part(inner(config, "vision_config"))
    heads = positive(text, "num_attention_heads", "n_head")
    hidden = positive(text, "hidden_size", "n_embd")
    return ModelShape(
        family=name,
        architecture=next(iter(words(config, "architectures")), ""),
        layers=layers,
        parts=(*parts, seeing) if seeing else parts,
        hidden=hidden,
        intermediate=number(text, "intermediate_size_mlp", "intermediate_size", "n_inner", default=4 * hidden),
        vocabulary=positive(text, "vocab_size"),
        attention_heads=heads,
        attention_width=_attention_width(text, family, heads),
        context_tokens=_context(text, family),
        dtype=_dtype(config, text),
        quantization=format_,
        experts=parameters.experts_of(text),
        weight_bytes=max(0, weight_bytes) // (2 if _is_stored_wide(config, text) else 1),
        is_embedding=family.is_encoder,
        block_tokens=64 if "kv_lora_rank" in text else 16,
    )


def requantized(shape: ModelShape, method: str) -> ModelShape:
    """Return the shape as it would be in another format; the files' size says nothing then. Raises ConfigRefused."""
    return replace(shape, quantization=quantization.named(method), weight_bytes=0)


def recast(shape: ModelShape, dtype: str) -> ModelShape:
    """Return an unquantized shape as it would be in another number format. Raises ConfigRefused."""
    chosen = quantization.plain(dtype)
    size = shape.weight_bytes * chosen.bits // shape.quantization.bits
    return replace(shape, dtype=dtype, quantization=chosen, weight_bytes=size)


def _text_config(config: Config) -> Config:
    """The part of a config that describes the language model; models that see images nest it."""
    for name in ("text_config", "llm_config", "language_config"):
        if nested := inner(config, name):
            return {**{key: config[key] for key in ("torch_dtype", "dtype") if key in config}, **nested}
    return config


def _family(name: str) -> Family:
    if reason := UNPLANNED.get(name):
        raise ConfigRefused("architecture_unknown", f"{name}: {reason}")
    found = FAMILIES.get(name)
    if found is None:
        raise ConfigRefused("architecture_unknown", f"model_type is {name[:48]!r}")
    return found


def _stored_dtype(config: Config, text: Config) -> str:
    found = (word(holder, name) for holder in (text, config) for name in ("dtype", "torch_dtype"))
    return next(filter(None, found), "bfloat16")


def _is_stored_wide(config: Config, text: Config) -> bool:
    return _stored_dtype(config, text) == "float32"


def _dtype(config: Config, text: Config) -> str:
    """The format it is served in: vLLM serves in 16 bits what was stored in 32."""
    return "float16" if _is_stored_wide(config, text) else _stored_dtype(config, text)


def _format(config: Config, text: Config) -> quantization.Quantization:
    for holder in (config, text):
        for name in ("quantization_config", "compression_config"):
            if (found := inner(holder, name)) and (read := quantization.of_config(found)):
                return read
    return quantization.plain(_dtype(config, text))


def _attention_width(text: Config, family: Family, heads: int) -> int:
    if "kv_lora_rank" in text:
        return heads * (positive(text, "qk_nope_head_dim") + number(text, "qk_rope_head_dim"))
    return heads * attention.head_dim(text, family)


def _context(text: Config, family: Family) -> int:
    """The longest context that vLLM accepts: the trained one, stretched where the rope's scaling says so."""
    trained = number(text, "max_position_embeddings", "n_positions", "max_sequence_length", default=2048)
    if family.is_encoder:
        return max(1, trained - trained % 16)  # RoBERTa's tables are two rows longer than its context
    rope = inner(text, "rope_scaling") or inner(text, "rope_parameters")
    factor, kind = rope.get("factor"), word(rope, "rope_type") or word(rope, "type")
    if kind not in _STRETCHING or not isinstance(factor, int | float) or not math.isfinite(factor):
        return max(1, trained)
    # Gemma's config.json names the stretched context, and a scaling beside it that was used to get there.
    return trained if "gemma" in word(text, "model_type") else max(1, int(trained * min(max(factor, 1), _MAX_STRETCH)))


_STRETCHING = frozenset({"linear", "dynamic", "ntk"})
_MAX_STRETCH = 1024
