"""Whether a model fits, why not, and what would: each answer is tried out against vLLM's rules of memory."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poolhouse_common import failures
from poolhouse_common.planner import Gpu, GpusRefused, Plan, Wish, parse_gpus, plan, read_shape, report, suggest
from poolhouse_common.planner.kv_cache import cache_of

from tests.fakes import model_configs as models

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "schemas" / "plan.json").read_text())
LLAMA = read_shape(config=models.LLAMA_3_1_8B)


def planned(config: dict[str, Any], gpus: str, **wish: Any) -> Plan:
    return plan(shape=read_shape(config=config), gpus=parse_gpus(gpus), wish=Wish(**wish))


def test_the_fewest_gpus_that_hold_it_are_used():
    found = planned(models.LLAMA_3_1_8B, "4 x 4090", context=32_768, concurrency=4)

    assert (found.fits, found.tensor_parallel, len(found.gpus)) == (True, 2, 2)


def test_the_parts_add_up_to_what_the_engine_may_use():
    budget = planned(models.LLAMA_3_1_8B, "4090", context=8192).budget

    parts = budget.weights + budget.activations + budget.graphs + budget.libraries + budget.cache
    assert parts == budget.usable
    assert budget.usable == budget.total * 9000 // 10_000


@pytest.mark.parametrize(
    ("config", "gpus", "wish", "code"),
    [
        (models.LLAMA_3_1_8B, "4090", {}, "context_does_not_fit"),
        (models.LLAMA_3_1_8B, "4090", {"context": 8192, "concurrency": 16}, "concurrency_does_not_fit"),
        (models.LLAMA_3_1_8B, "H100", {"context": 200_000}, "context_beyond_model"),
        (models.LLAMA_3_1_70B, "2 x 4090", {"context": 4096}, "out_of_gpu_memory"),
        (models.LLAMA_3_1_8B, "4 x 4090", {"context": 4096, "tensor_parallel": 3}, "tensor_parallel_invalid"),
        (models.LLAMA_3_1_8B, "4090", {"context": 4096, "tensor_parallel": 2}, "gpus_missing"),
        (models.LLAMA_3_1_8B, "V100 32GB", {"context": 4096}, "compute_capability_too_low"),
    ],
)
def test_each_reason_has_a_code_of_the_catalogue_and_says_what_is_so(
    config: dict[str, Any], gpus: str, wish: dict[str, Any], code: str
):
    found = planned(config, gpus, **wish)

    assert not found.fits
    assert [reason.code for reason in found.reasons] == [code]
    assert found.reasons[0].detail
    assert failures.find(code) is not None


def test_the_tiny_model_is_refused_where_vllm_refused_it():
    """What vLLM 0.32 refused to start: a context of 100,000 for a model of 1,024, and four heads on three ranks."""
    long = planned(models.TINY_CHAT, "4090", context=100_000)
    three = planned(models.TINY_CHAT, "4 x 4090", context=512, tensor_parallel=3)

    assert [reason.code for reason in (*long.reasons, *three.reasons)] == [
        "context_beyond_model",
        "tensor_parallel_invalid",
    ]


def test_without_a_gpu_there_is_no_plan():
    with pytest.raises(GpusRefused) as refused:
        plan(shape=LLAMA, gpus=[], wish=Wish())

    assert refused.value.code == "gpus_missing"


@pytest.mark.parametrize("wish", [Wish(context=-1), Wish(concurrency=0), Wish(utilization=1.5), Wish(kv_dtype="int3")])
def test_a_wish_without_sense_is_a_mistake_of_the_caller(wish: Wish):
    with pytest.raises(ValueError, match="no sense"):
        plan(shape=LLAMA, gpus=parse_gpus("4090"), wish=wish)


def test_an_8_bit_cache_holds_twice_as_much():
    wide, narrow = (planned(models.LLAMA_3_1_8B, "4090", context=8192, kv_dtype=kind) for kind in ("auto", "fp8"))

    assert narrow.cache_tokens == pytest.approx(2 * wide.cache_tokens, rel=0.001)


@pytest.mark.parametrize(
    ("config", "ranks", "bytes_a_token"),
    [
        (models.LLAMA_3_1_8B, 1, 131_072),
        (models.LLAMA_3_1_8B, 2, 65_536),
        (models.LLAMA_3_1_8B, 16, 16_384),  # eight heads on sixteen ranks: each keeps one
        (models.DEEPSEEK_R1, 1, 70_272),
        (models.DEEPSEEK_R1, 8, 70_272),  # the latent vector lies on every rank
    ],
)
def test_how_keys_and_values_lie_on_ranks(config: dict[str, Any], ranks: int, bytes_a_token: int):
    cache = cache_of(read_shape(config=config), tensor_parallel=ranks)

    assert cache.block_bytes == bytes_a_token * cache.groups[0].block_tokens


def test_windows_keep_a_long_context_cheap():
    """Gemma 3: ten layers see everything, 52 the last 1,024 tokens; groups of ten, the last one padded."""
    cache = cache_of(read_shape(config=models.GEMMA_3_27B), tensor_parallel=1)

    full, *sliding = cache.groups
    assert (full.layers, len(sliding)) == (10, 6)
    request = cache.request_bytes(context=131_072, batched_tokens=2048)
    everything = 131_072 * 62 * 16 * 256 * 2
    assert request < everything * 0.3


def test_an_embedding_model_needs_its_weights_and_one_step():
    found = planned(models.BGE_BASE, "T4", context=512)

    assert (found.fits, found.budget.request, found.cache_tokens) == (True, 0, 0)


CASES = [
    (models.LLAMA_3_1_8B, "4090", Wish()),
    (models.LLAMA_3_1_8B, "4090", Wish(context=8192, concurrency=16)),
    (models.LLAMA_3_1_70B, "2 x 4090", Wish(context=4096)),
    (models.LLAMA_3_1_8B, "2 x 3090", Wish(context=65_536, concurrency=8)),
    (models.LLAMA_3_1_8B, "T4", Wish(context=4096)),
    (models.QWEN3_235B_FP8, "8 x H100", Wish(context=32_768, tensor_parallel=8)),
    (models.GPT_OSS_120B, "H100", Wish(context=131_072, concurrency=8)),
    (models.GEMMA_3_27B, "3090", Wish(context=8192)),
    (models.LLAMA_3_1_70B, "3 x 4090", Wish()),
]


@pytest.mark.parametrize(("config", "gpus", "wish"), CASES)
def test_each_suggestion_fits_when_it_is_followed(config: dict[str, Any], gpus: str, wish: Wish):
    shape, named = read_shape(config=config), parse_gpus(gpus)
    answer = plan(shape=shape, gpus=named, wish=wish)

    found = suggest(answer, gpus=named, wish=wish)

    assert not answer.fits
    assert found
    for one in found:
        again = one.plan
        followed = replace(
            wish, context=again.load.context, concurrency=again.load.concurrency,
            tensor_parallel=again.tensor_parallel, kv_dtype=again.load.kv_dtype,
        )  # fmt: skip
        more = [named[0]] * max(0, again.tensor_parallel - len(named))
        assert plan(shape=again.shape, gpus=[*named, *more], wish=followed).fits, one.text


DEEPSEEK = "DeepseekV3ForCausalLM: 671.03 B weights, 36.63 B of them active, fp8, 61 layers (61 keep latent vectors)"
GEMMA = "Gemma3ForConditionalGeneration: 27.42 B weights, bfloat16, 62 layers (52 see a window)"
BGE = "BertModel: 108.8 M weights, float16, an encoder"


@pytest.mark.parametrize(
    ("config", "gpus", "wish", "line"),
    [
        (models.DEEPSEEK_R1, "8 x H200", Wish(context=32_768), DEEPSEEK),
        (models.GEMMA_3_27B, "A100", Wish(context=8192), GEMMA),
        (models.BGE_BASE, "T4", Wish(), BGE),
    ],
)
def test_the_model_in_one_line(config: dict[str, Any], gpus: str, wish: Wish, line: str):
    answer = plan(shape=read_shape(config=config), gpus=parse_gpus(gpus), wish=wish)

    assert report.model_line(answer.shape) == line
    assert report.verdict(answer).startswith("fits: ")


def test_words_for_an_embedding_model():
    answer = planned(models.BGE_BASE, "T4", context=512)

    assert report.verdict(answer) == "fits: with texts of 512 tokens on 1 x T4"
    assert report.limits(answer) == "one request of 512 tokens fits"
    assert [name for name, _, _ in report.budget_rows(answer)][-1] == "left for the cache"


def test_what_fits_needs_no_suggestion():
    answer = planned(models.LLAMA_3_1_8B, "4090", context=8192)

    assert suggest(answer, gpus=parse_gpus("4090"), wish=Wish(context=8192)) == ()


@pytest.mark.parametrize(
    ("config", "gpus", "wish", "kinds"),
    [
        (models.LLAMA_3_1_8B, "4090", Wish(), {"less_context", "more_gpus"}),
        (models.LLAMA_3_1_8B, "4090", Wish(context=8192, concurrency=7), {"fewer_requests", "smaller_cache"}),
        (models.LLAMA_3_1_8B, "V100 32GB", Wish(context=4096), {"other_dtype"}),
        (models.LLAMA_3_1_8B, "2 x 4090", Wish(context=32_768, concurrency=4, tensor_parallel=1), {"other_gpus"}),
        (models.GEMMA_3_27B, "4090", Wish(context=8192), {"more_gpus", "smaller_weights"}),
        (models.LLAMA_3_1_70B, "3 x 4090", Wish(), {"more_gpus", "smaller_weights"}),
    ],
)
def test_suggestions_are_of_the_right_kind(config: dict[str, Any], gpus: str, wish: Wish, kinds: set[str]):
    named = parse_gpus(gpus)
    answer = plan(shape=read_shape(config=config), gpus=named, wish=wish)

    assert kinds <= {one.kind for one in suggest(answer, gpus=named, wish=wish)}


@pytest.mark.parametrize(("config", "gpus", "wish"), [*CASES, (models.LLAMA_3_1_8B, "4090", Wish(context=8192))])
def test_json_keeps_to_the_published_schema(config: dict[str, Any], gpus: str, wish: Wish):
    named = parse_gpus(gpus)
    answer = plan(shape=read_shape(config=config), gpus=named, wish=wish)

    jsonschema.validate(report.as_json(answer, suggest(answer, gpus=named, wish=wish)), SCHEMA)


@settings(max_examples=60, deadline=None)
@given(
    memory=st.integers(8, 200),
    context=st.integers(256, 131_072),
    concurrency=st.integers(1, 64),
    count=st.sampled_from([1, 2, 4, 8]),
)
def test_more_memory_and_smaller_wishes_never_hurt(memory: int, context: int, concurrency: int, count: int):
    wish = Wish(context=context, concurrency=concurrency, batched_tokens=2048)
    gpu = Gpu("some GPU", memory << 30, "9.0")
    if not plan(shape=LLAMA, gpus=[gpu] * count, wish=wish).fits:
        return

    larger = replace(gpu, memory_bytes=gpu.memory_bytes + (8 << 30))
    assert plan(shape=LLAMA, gpus=[larger] * count, wish=wish).fits
    assert plan(shape=LLAMA, gpus=[gpu] * count, wish=replace(wish, context=max(256, context // 2))).fits
    assert plan(shape=LLAMA, gpus=[gpu] * count, wish=replace(wish, concurrency=max(1, concurrency - 1))).fits
