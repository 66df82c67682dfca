"""Formats of weights: what each takes, which GPU serves it, which are refused and why."""

from typing import Any

import pytest
from poolhouse_common.planner import ConfigRefused, Gpu, read_shape
from poolhouse_common.planner.division import capability_problem, division_problem, usable_sizes
from poolhouse_common.planner.quantization import named, of_config

from tests.fakes import model_configs as models


def with_format(**quantization: Any) -> dict[str, Any]:
    return {**models.LLAMA_3_1_8B, "quantization_config": quantization}


@pytest.mark.parametrize(
    ("quantization", "label", "bytes_of_a_million"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq 4 bit", 519_532),
        ({"quant_method": "awq", "w_bit": 4, "group_size": 64}, "awq 4 bit", 539_063),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "gptq 8 bit", 1_023_438),
        ({"quant_method": "fp8"}, "fp8", 1_000_977),
        ({"quant_method": "mxfp4"}, "mxfp4", 531_250),
        ({"quant_algo": "NVFP4", "quant_method": "modelopt"}, "nvfp4", 562_500),
        ({"quant_algo": "FP8"}, "fp8", 1_000_977),
        ({"quant_method": "quark"}, "fp8", 1_000_977),
    ],
)
def test_what_a_weight_takes(quantization: dict[str, Any], label: str, bytes_of_a_million: int):
    found = of_config(quantization)

    assert found is not None
    assert found.label == label
    assert found.bytes_of(1_000_000) == pytest.approx(bytes_of_a_million, rel=0.005)


@pytest.mark.parametrize(
    ("weights", "label"),
    [
        ({"num_bits": 4, "type": "int", "group_size": 128}, "compressed-tensors int 4 bit"),
        ({"num_bits": 8, "type": "int"}, "compressed-tensors int8"),
        ({"num_bits": 8, "type": "float"}, "compressed-tensors fp8"),
        ({"num_bits": 4, "type": "float", "group_size": 16}, "compressed-tensors nvfp4"),
    ],
)
def test_compressed_tensors_are_read_by_their_first_group(weights: dict[str, Any], label: str):
    found = of_config({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}})

    assert found is not None
    assert (found.method, found.label) == ("compressed-tensors", label)


@pytest.mark.parametrize("method", ["gguf", "bitsandbytes", "hqq", "exl2", "aqlm"])
def test_a_format_that_is_not_served_says_what_to_use(method: str):
    with pytest.raises(ConfigRefused, match=r"AWQ, GPTQ or FP8") as refused:
        read_shape(config=with_format(quant_method=method))

    assert refused.value.code == "quantization_unsupported"


def test_gguf_is_refused_with_its_reason():
    with pytest.raises(ConfigRefused) as refused:
        named("gguf")

    assert refused.value.detail.startswith("vLLM no longer serves GGUF")


@pytest.mark.parametrize("quantization", [{"quant_method": "voodoo"}, {"bits": 4}, {"quant_method": "gptq", "bits": 5}])
def test_an_unknown_format_is_refused(quantization: dict[str, Any]):
    with pytest.raises(ConfigRefused) as refused:
        read_shape(config=with_format(**quantization))

    assert refused.value.code == "quantization_unsupported"


@pytest.mark.parametrize(
    ("config", "capability", "is_refused"),
    [
        (models.LLAMA_3_1_8B, "8.0", False),
        (models.LLAMA_3_1_8B, "7.5", True),
        (models.LLAMA_3_1_8B, "", False),
        (with_format(quant_method="awq", bits=4), "7.5", False),
        (with_format(quant_method="awq", bits=4), "7.0", True),
        (with_format(quant_method="fp8"), "8.6", False),
        (with_format(quant_method="fp8"), "7.5", True),
        (with_format(quant_method="mxfp4"), "12.0", False),
    ],
)
def test_the_gpu_must_know_the_format(config: dict[str, Any], capability: str, is_refused: bool):
    problem = capability_problem(read_shape(config=config), [Gpu("some GPU", 1, capability)])

    assert (problem is not None) is is_refused
    assert problem is None or problem.code == "compute_capability_too_low"


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        (models.LLAMA_3_1_8B, [1, 2, 4, 8]),
        (models.QWEN_2_5_1_5B, [1, 2, 4]),  # 12 heads
        (models.QWEN_2_5_0_5B, [1, 2]),  # 14 heads
        (models.QWEN_2_5_72B_GPTQ, [1, 2, 4, 8]),
        ({**models.QWEN_2_5_72B_GPTQ, "intermediate_size": 29568}, [1]),  # 231 groups of 128: the unpadded release
        (models.QWEN3_235B_FP8, [1, 2, 4]),  # 1536 / 8 is no multiple of the blocks of 128
        (models.DEEPSEEK_R1, [1, 2, 4, 8]),
    ],
)
def test_over_how_many_gpus_a_model_can_be_spread(config: dict[str, Any], sizes: list[int]):
    assert usable_sizes(read_shape(config=config), 8) == sizes


@pytest.mark.parametrize(
    ("changes", "ranks", "detail"),
    [
        ({"num_attention_heads": 14, "num_key_value_heads": 2}, 4, "14 attention heads do not divide by 4"),
        ({"num_attention_heads": 24, "num_key_value_heads": 6}, 4, "6 key and value heads do not share out over 4"),
        ({"intermediate_size": 14337}, 2, "the feed-forward width of 14337 does not divide by 2"),
    ],
)
def test_what_does_not_divide_is_named(changes: dict[str, Any], ranks: int, detail: str):
    problem = division_problem(read_shape(config={**models.LLAMA_3_1_8B, **changes}), ranks)

    assert problem is not None
    assert (problem.code, problem.detail) == ("tensor_parallel_invalid", detail)


def test_compressed_tensors_that_compress_nothing_are_plain():
    config = with_format(quant_method="compressed-tensors", config_groups={})

    assert read_shape(config=config).quantization.label == "bfloat16"


def test_three_gpus_are_refused_as_vllm_refuses_them():
    problem = division_problem(read_shape(config=models.TINY_CHAT), 3)

    assert problem is not None
    assert (problem.code, problem.detail) == ("tensor_parallel_invalid", "3 GPUs: use 1, 2, 4 or 8")
