"""Speed where nobody has measured: never above what the GPU can read and multiply, and sensible in between."""

from typing import Any

import pytest
from poolhouse_common.planner import Speed, Wish, find_kind, parse_gpus, plan, read_shape, speed_of
from poolhouse_common.planner.roofline import read_bytes

from tests.fakes import model_configs as models


def speed(config: dict[str, Any], gpus: str, *, sequences: int = 1, context: int = 512) -> Speed:
    named = parse_gpus(gpus)
    kind = find_kind(named[0].name)
    assert kind is not None
    ranks = len(named)
    answer = plan(shape=read_shape(config=config), gpus=named, wish=Wish(context=4096, tensor_parallel=ranks))
    return speed_of(answer, kind=kind, sequences=sequences, context=context)


def test_one_stream_stays_below_what_memory_can_read():
    """An 8B model in 16 bits on one 4090 reads 15 GB a token: at most 67 tokens a second, six tenths of it here."""
    found = speed(models.LLAMA_3_1_8B, "4090")

    assert 0.55 * 67 < found.decode < 0.65 * 67


def test_many_streams_share_one_reading_of_the_weights():
    one, many = (speed(models.LLAMA_3_1_8B, "4090", sequences=count).decode for count in (1, 16))

    assert 12 * one < many < 16 * one


def test_a_long_context_slows_the_answer():
    assert speed(models.LLAMA_3_1_8B, "4090", context=32_768).decode < speed(models.LLAMA_3_1_8B, "4090").decode


def test_two_gpus_are_faster_than_one_but_not_twice():
    one, two = (speed(models.LLAMA_3_1_8B, gpus).decode for gpus in ("4090", "2 x 4090"))

    assert 1.3 * one < two < 2 * one


def test_prompts_are_bound_by_multiplication():
    found = speed(models.LLAMA_3_1_8B, "4090")

    assert found.prefill == pytest.approx(0.5 * 165e12 / (2 * 7.5e9), rel=0.01)


def test_of_experts_few_streams_read_few():
    shape = read_shape(config=models.QWEN3_235B_FP8)

    one, many = read_bytes(shape, 1), read_bytes(shape, 512)

    assert one < 25e9
    assert many == pytest.approx(236e9, rel=0.02)


def test_requests_a_second_count_reading_and_writing():
    assert Speed(prefill=1000, decode=100).requests_a_second(prompt=500, completion=50) == pytest.approx(1.0)


@pytest.mark.parametrize("found", [Speed(0, 100), Speed(100, 0)])
def test_a_speed_that_nobody_has_passes_nothing(found: Speed):
    assert found.requests_a_second(prompt=1, completion=1) == 0
