"""What vLLM printed on other people's machines, and what the planner says of the same: within 5 %.

Each row names where its figures were published (vllm#N is an issue or pull request of vllm-project/vllm).
"""

from dataclasses import dataclass
from typing import Any

import pytest
from poolhouse_common.planner import Gpu, read_shape
from poolhouse_common.planner.budget import DRIVER_BYTES, Load, budget_of
from poolhouse_common.planner.gpus import GIB
from poolhouse_common.planner.kv_cache import cache_of, token_bytes
from poolhouse_common.planner.overheads import activation_bytes
from poolhouse_common.planner.weights import weight_bytes

from tests.fakes import model_configs as models
from tests.fakes.model_cards import CARDS

TOLERANCE = 0.05


def gib(value: float) -> int:
    return round(value * GIB)


@pytest.mark.parametrize(
    ("config", "ranks", "printed_gib", "source"),
    [
        (models.LLAMA_3_1_8B, 1, 14.9888, "vllm#10517, vllm#17122"),
        (models.LLAMA_3_1_8B, 2, 7.51, "vllm#11251"),
        (models.LLAMA_3_1_70B_W8A8, 1, 67.7229, "vllm#12569"),
        (models.QWEN_2_5_14B, 2, 13.9476, "vllm#13061"),
        (models.QWEN_2_5_1_5B, 1, 2.8875, "a notebook's log, RTX T4, vLLM 0.8"),
        (models.GPT_OSS_120B, 1, 65.9651, "vllm#23278"),
        (models.GPT_OSS_20B, 1, 13.72, "myoceane.fr, vLLM 0.19 on an A100"),
        (models.DEEPSEEK_R1_AWQ, 16, 21.21, "vllm#14447"),
    ],
)
def test_weights(config: dict[str, Any], ranks: int, printed_gib: float, source: str):
    found = weight_bytes(read_shape(config=config), tensor_parallel=ranks)

    assert found / GIB == pytest.approx(printed_gib, rel=TOLERANCE), source


@pytest.mark.parametrize(
    ("config", "parameters", "active"),
    [
        (models.LLAMA_3_1_8B, 8.03e9, None),
        (models.LLAMA_3_1_70B, 70.55e9, None),
        (models.QWEN3_8B, 8.19e9, None),
        (models.QWEN3_0_6B, 0.596e9, None),
        (models.QWEN3_235B_FP8, 235.09e9, 22e9),
        (models.GPT_OSS_120B, 116.83e9, 5.1e9),
        (models.DEEPSEEK_R1, 671.03e9, 37e9),
        (models.GEMMA_3_27B, 27.43e9, None),
        (models.MIXTRAL_8X7B, 46.70e9, 12.9e9),
        (models.MISTRAL_7B_V01, 7.24e9, None),
        (models.STARCODER2_3B, 3.03e9, None),
        (models.BGE_BASE, 0.109e9, None),
    ],
)
def test_parameters_are_those_of_the_model_cards(config: dict[str, Any], parameters: float, active: float | None):
    shape = read_shape(config=config)

    assert shape.parameters == pytest.approx(parameters, rel=0.005)
    if active is not None:
        assert shape.active_parameters == pytest.approx(active, rel=0.03)


@pytest.mark.parametrize(
    ("config", "kib"),
    [
        (models.LLAMA_3_1_8B, 128),
        (models.LLAMA_3_1_70B, 320),
        (CARDS["qwen2.5-7b"][0], 56),
        (models.QWEN_2_5_72B_GPTQ, 320),
        (models.DEEPSEEK_R1, 576 * 61 * 2 / 1024),
        (models.TINY_CHAT, 0.5),
    ],
)
def test_what_a_token_takes_is_what_is_commonly_known(config: dict[str, Any], kib: float):
    assert token_bytes(read_shape(config=config), tensor_parallel=1) == kib * 1024


@pytest.mark.parametrize("name", CARDS)
def test_many_families_are_as_large_as_their_cards_say(name: str):
    """Cards round; active weights are counted with or without the embeddings."""
    config, total, active = CARDS[name]

    shape = read_shape(config=config)

    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.015)
    if active:
        assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.13)


@dataclass(frozen=True)
class Printed:
    """The cache as vLLM printed it: so many GiB, so many tokens (or blocks), at one rank's share."""

    config: dict[str, Any]
    ranks: int
    memory_gib: float
    blocks: int
    source: str


@pytest.mark.parametrize(
    "printed",
    [
        Printed(models.LLAMA_3_1_8B, 1, 3.81, 1952, "vllm#10517, 20,000 tokens"),
        Printed(models.LLAMA_3_1_8B, 1, 2.89, 1478, "vllm#10517, 29,000 tokens"),
        Printed(models.LLAMA_3_1_8B, 2, 3.76, 3852, "vllm#11251, two V100"),
        Printed(models.QWEN3_235B_FP8, 4, 8.11, 178_880 // 16, "vllm#21348, four H100"),
        Printed(models.QWEN_2_5_1_5B, 1, 2.36, 5519, "a notebook's log, T4, vLLM 0.8"),
    ],
    ids=lambda printed: printed.source,
)
def test_cache_blocks(printed: Printed):
    shape = read_shape(config=printed.config)

    found = cache_of(shape, tensor_parallel=printed.ranks).blocks(gib(printed.memory_gib))

    assert found == pytest.approx(printed.blocks, rel=TOLERANCE)


def test_cache_tokens_of_a_recent_start():
    """The same notebook's log: 20.52 GiB are 1,793,232 tokens of Qwen2.5-0.5B."""
    cache = cache_of(read_shape(config=models.QWEN_2_5_0_5B), tensor_parallel=1)

    assert cache.blocks(gib(20.52)) * 16 == pytest.approx(1_793_232, rel=0.001)


def test_the_transcript_of_the_tiny_model_holds_exactly():
    """vllm-transcripts/chat/metrics-fresh.txt: vllm:cache_config_info of vLLM 0.32 with 1 GiB and blocks of 128."""
    cache = cache_of(read_shape(config=models.TINY_CHAT), tensor_parallel=1, block_tokens=128)

    blocks = cache.blocks(1 * GIB)

    request = cache.request_bytes(context=512, batched_tokens=2048) // cache.block_bytes
    assert (blocks, blocks / request, int(blocks / request * 512)) == (16_384, 4096.0, 2_097_152)


def test_a_window_of_all_layers():
    """vllm#19029: starcoder2-3b, 2,198,512 tokens in the pool, 178.68 requests of 16,384 with 8,192 in flight."""
    cache = cache_of(read_shape(config=models.STARCODER2_3B), tensor_parallel=1)

    request = cache.request_bytes(context=16_384, batched_tokens=8192 // 2) // cache.block_bytes

    assert round(2_198_512 / 16 / request, 2) == 178.68


def test_states_beside_attention():
    """Qwen3.5-27B's shape with an 8-bit cache: blocks of 1,568 tokens; 7.08 GiB are 222,822 tokens of 131,072."""
    cache = cache_of(read_shape(config=models.QWEN3_5_27B_FP8_CACHE), tensor_parallel=1, kv_dtype="fp8")

    request = cache.request_bytes(context=131_072, batched_tokens=2048) // cache.block_bytes

    assert cache.groups[0].block_tokens == 1568
    assert int(cache.blocks(gib(7.08)) / request * 131_072) == pytest.approx(222_822, rel=0.01)


def test_states_beside_attention_in_16_bits():
    """vllm#40694: Qwen3.5-27B, blocks of 784 tokens, 33.04 requests of 32,768 from 1,487 blocks."""
    cache = cache_of(read_shape(config=models.QWEN3_5_27B_FP8_CACHE), tensor_parallel=1)

    request = cache.request_bytes(context=32_768, batched_tokens=16_384) // cache.block_bytes

    assert (cache.groups[0].block_tokens, round(1487 / request, 2)) == (784, 33.04)


@pytest.mark.parametrize(
    ("ranks", "tokens", "printed_gib", "source"),
    [
        (1, 20_000, 17.06 - 14.9888, "vllm#10517"),
        (1, 29_000, 17.98 - 14.9888, "vllm#10517"),
        (2, 40_000, 2.53, "vllm#11251"),
    ],
)
def test_activations_of_long_steps(ranks: int, tokens: int, printed_gib: float, source: str):
    shape = read_shape(config=models.LLAMA_3_1_8B)

    found = activation_bytes(shape, tensor_parallel=ranks, tokens=tokens, sequences=4)

    assert found / GIB == pytest.approx(printed_gib, rel=TOLERANCE), source


def test_activations_of_sampling():
    """An H100's log in a printed book, Llama-3.1-8B with 256 sequences: the sampler's 1.19 GiB are the peak."""
    shape = read_shape(config=models.LLAMA_3_1_8B)

    found = activation_bytes(shape, tensor_parallel=1, tokens=8192, sequences=256)

    assert found / GIB == pytest.approx(1.19, rel=TOLERANCE)


@dataclass(frozen=True)
class Whole:
    """A whole start: `total_gib` as CUDA sees it, and the GiB that were left for the cache."""

    config: dict[str, Any]
    gpu: str
    total_gib: float
    load: Load
    left_gib: float
    source: str


@pytest.mark.parametrize(
    "whole",
    [
        Whole(
            models.LLAMA_3_1_8B, "RTX 3090", 23.58,
            Load(20_000, 4, 1, utilization=0.90, batched_tokens=20_000, is_eager=True), 3.81, "vllm#10517",
        ),
        Whole(
            models.LLAMA_3_1_8B, "RTX 3090", 23.58,
            Load(29_000, 4, 1, utilization=0.90, batched_tokens=29_000, is_eager=True), 2.89, "vllm#10517",
        ),
        Whole(
            models.LLAMA_3_1_8B, "H100", 79.14, Load(8192, 256, 1, utilization=0.90, is_eager=True), 54.93,
            "a book's log, vLLM 0.7",
        ),
        Whole(
            models.LLAMA_3_1_8B, "H100", 79.22, Load(8192, 256, 1, utilization=0.90, is_eager=True), 53.29,
            "vllm#10511",
        ),
        Whole(
            models.GPT_OSS_20B, "A100", 79.25, Load(131_072, 256, 1, utilization=0.65, is_eager=True), 36.56,
            "myoceane.fr, vLLM 0.19",
        ),
        Whole(
            models.QWEN_2_5_0_5B, "RTX 4090", 23.99, Load(4096, 8, 1, utilization=0.92, batched_tokens=8192), 20.52,
            "a notebook's log, vLLM 0.26",
        ),
    ],
    ids=lambda whole: f"{whole.gpu} {whole.source}",
)  # fmt: skip
def test_what_is_left_for_the_cache(whole: Whole):
    """vLLM before 0.21 did not count CUDA graphs in advance, hence the eager loads."""
    gpu = Gpu(whole.gpu, gib(whole.total_gib) + DRIVER_BYTES)

    budget = budget_of(read_shape(config=whole.config), gpu, whole.load)

    assert budget.cache / GIB == pytest.approx(whole.left_gib, rel=TOLERANCE)
