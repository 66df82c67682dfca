"""config.json from strangers: the families it knows, what it refuses and how it says so."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poolhouse_common import failures
from poolhouse_common.planner import ConfigRefused, parse_config, read_shape, recast, requantized
from poolhouse_common.planner.shape import Attention

from tests.fakes import model_configs as models


def kinds(config: dict[str, Any]) -> dict[Attention, int]:
    return {layers.attention: layers.count for layers in read_shape(config=config).layers}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (models.LLAMA_3_1_8B, {Attention.FULL: 32}),
        (models.QWEN_2_5_14B, {Attention.FULL: 48}),
        (models.MISTRAL_7B_V01, {Attention.SLIDING: 32}),
        (models.GEMMA_3_27B, {Attention.FULL: 10, Attention.SLIDING: 52}),
        (models.GPT_OSS_120B, {Attention.FULL: 18, Attention.SLIDING: 18}),
        (models.DEEPSEEK_R1, {Attention.LATENT: 61}),
        (models.QWEN3_5_27B_FP8_CACHE, {Attention.FULL: 16, Attention.STATE: 48}),
        (models.BGE_BASE, {}),
    ],
)
def test_layers_by_what_they_remember(config: dict[str, Any], expected: dict[Attention, int]):
    assert kinds(config) == expected


def test_head_width_is_taken_from_the_config_where_it_says():
    shape = read_shape(config=models.QWEN3_0_6B)

    assert (shape.layers[0].key_dim, shape.hidden // shape.attention_heads) == (128, 64)


@pytest.mark.parametrize(
    ("config", "context"),
    [
        (models.LLAMA_3_1_8B, 131_072),
        (models.GEMMA_3_27B, 131_072),
        (models.DEEPSEEK_R1, 163_840),
        ({**models.QWEN3_8B, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, 81_920),
        ({**models.QWEN3_8B, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 40_960),
        ({**models.QWEN3_8B, "rope_scaling": {"rope_type": "linear", "factor": float("nan")}}, 40_960),
        ({**models.QWEN3_8B, "rope_scaling": {"rope_type": "linear", "factor": "2"}}, 40_960),
        ({**models.BGE_BASE, "max_position_embeddings": 514}, 512),
    ],
)
def test_the_longest_context_is_the_one_that_vllm_accepts(config: dict[str, Any], context: int):
    assert read_shape(config=config).context_tokens == context


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({}, "architecture_unknown"),
        ({"model_type": "voodoo"}, "architecture_unknown"),
        ({"model_type": "jamba"}, "architecture_unknown"),
        ({"model_type": "deepseek_v32"}, "architecture_unknown"),
        ({**models.LLAMA_3_1_8B, "hidden_size": None}, "model_config_invalid"),
        ({**models.LLAMA_3_1_8B, "hidden_size": 0}, "model_config_invalid"),
        ({**models.LLAMA_3_1_8B, "hidden_size": -4096}, "model_config_invalid"),
        ({**models.LLAMA_3_1_8B, "hidden_size": "4096"}, "model_config_invalid"),
        ({**models.LLAMA_3_1_8B, "num_hidden_layers": 1 << 60}, "model_config_invalid"),
        ({**models.GEMMA_3_27B["text_config"], "num_hidden_layers": 1 << 30}, "model_config_invalid"),
        ({**models.LLAMA_3_1_8B, "layer_types": ["full_attention"] * 3}, "architecture_unknown"),
        ({**models.LLAMA_3_1_8B, "layer_types": ["a_new_attention"] * 32}, "architecture_unknown"),
        ({**models.LLAMA_3_1_8B, "torch_dtype": "int3"}, "quantization_unsupported"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_code_of_the_catalogue(config: dict[str, Any], code: str):
    with pytest.raises(ConfigRefused) as refused:
        read_shape(config=config)

    assert refused.value.code == code
    assert refused.value.detail
    assert failures.find(code) is not None


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{", b"\xff", b"[" * 100_000, b" " * (1 << 20) + b"{}", b'{"a": NaN}', b'{"a": -Infinity}',
        b'{"a": "\\u0000"}', b'{"\\u0000": 1}', b'{"a": "\\ud800"}',
    ],
)  # fmt: skip
def test_what_is_no_config_is_refused(content: bytes):
    with pytest.raises(ConfigRefused) as refused:
        parse_config(content)

    assert refused.value.code == "model_config_invalid"


def test_files_stored_in_32_bits_are_served_in_16():
    shape = read_shape(config=models.BGE_BASE, weight_bytes=438_000_000)

    assert (shape.dtype, shape.weight_bytes) == ("float16", 219_000_000)


def test_a_dense_model_in_another_format_is_what_the_release_would_be():
    awq = requantized(read_shape(config=models.LLAMA_3_1_8B, weight_bytes=16_060_556_376), "awq")

    assert (awq.quantization.label, awq.weight_bytes, awq.quantization.group) == ("awq 4 bit", 0, 128)


def test_another_number_format_scales_the_files():
    shape = recast(read_shape(config=models.LLAMA_3_1_8B, weight_bytes=16_000), "float32")

    assert (shape.quantization.bits, shape.weight_bytes) == (32, 32_000)


FIELDS = [
    *models.QWEN3_5_27B_FP8_CACHE["text_config"], "rope_scaling", "quantization_config", "layer_types", "torch_dtype",
    "sliding_window", "num_experts", "vision_config", "kv_lora_rank",
]  # fmt: skip
SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(changes=st.dictionaries(st.sampled_from(FIELDS), SCRAPS, max_size=3))
def test_no_scrap_in_a_config_does_worse_than_be_refused(changes: dict[str, Any]):
    config = {**models.QWEN3_5_27B_FP8_CACHE["text_config"], **changes}

    found = _read_or_refused(json.loads(json.dumps(config)))

    assert found > 0


def _read_or_refused(config: dict[str, Any]) -> int:
    """The number of weights, or of letters in the code of the catalogue's entry."""
    try:
        return read_shape(config=config).parameters
    except ConfigRefused as refused:
        entry = failures.find(refused.code)
        return len(entry.code) if entry else 0
