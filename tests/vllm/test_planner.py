"""The planner beside a real vLLM 0.32: its own arithmetic for large models, and a whole start of the tiny one."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from poolhouse_common.planner import parse_config, read_shape
from poolhouse_common.planner.gpus import GIB
from poolhouse_common.planner.kv_cache import KV_BYTES, Cache, cache_of
from poolhouse_common.planner.shape import ModelShape
from poolhouse_common.planner.weights import weight_bytes

from portal.sandbox import processes
from tests.fakes import model_configs as models
from tests.integration.gateway.pool import until
from tests.vllm.conftest import CPU_ENVIRONMENT, VENV

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

CASES = [
    ("Llama-3.1-8B", models.LLAMA_3_1_8B, 1, 32_768, "auto"),
    ("Llama-3.1-8B on two", models.LLAMA_3_1_8B, 2, 131_072, "auto"),
    ("Llama-3.1-8B, 8 bit", models.LLAMA_3_1_8B, 1, 10_000, "fp8"),
    ("Qwen3-235B on eight", models.QWEN3_235B_FP8, 8, 40_960, "auto"),
    ("Mistral-7B-v0.1", models.MISTRAL_7B_V01, 1, 32_768, "auto"),
    ("starcoder2-3b", models.STARCODER2_3B, 1, 16_384, "auto"),
    ("Gemma-3-27B", models.GEMMA_3_27B, 1, 131_072, "auto"),
    ("Gemma-3-27B, short", models.GEMMA_3_27B, 4, 3_000, "auto"),
    ("gpt-oss-120b", models.GPT_OSS_120B, 1, 131_072, "auto"),
    ("gpt-oss-20b on four", models.GPT_OSS_20B, 4, 32_768, "fp8"),
    ("DeepSeek-R1 on eight", models.DEEPSEEK_R1, 8, 163_840, "auto"),
    ("Qwen3.5-27B", models.QWEN3_5_27B_FP8_CACHE, 1, 131_072, "auto"),
    ("Qwen3.5-27B on two, 8 bit", models.QWEN3_5_27B_FP8_CACHE, 2, 262_144, "fp8"),
]
BATCHED = 2048
MEMORY = 20 * GIB
START_S = 240.0


def test_the_cache_is_the_one_that_vllms_own_code_makes(vllm_program: str):
    prepared = [_case(config, ranks, context, dtype) for _, config, ranks, context, dtype in CASES]
    asked = [case for case, _ in prepared]

    answers = _vllms(asked)

    expected = {name: _ours(cache, case) for (name, *_), (case, cache) in zip(CASES, prepared, strict=True)}
    assert {name: found for (name, *_), found in zip(CASES, answers, strict=True)} == expected


def test_a_whole_start_prints_what_the_planner_says(vllm_program: str, tiny_chat: Path, tmp_path: Path):
    """Blocks, tokens and concurrency exactly, and the weights' files within 1 %."""
    shape = read_shape(config=parse_config((tiny_chat / "config.json").read_bytes()))

    with _served(vllm_program, tiny_chat, tmp_path / "vllm.log") as metrics:
        printed = _labels(metrics)

    cache = cache_of(shape, tensor_parallel=1, block_tokens=int(printed["block_size"]))
    request = cache.request_bytes(context=512, batched_tokens=BATCHED) // cache.block_bytes
    blocks = cache.blocks(int(printed["kv_cache_memory_bytes"]))
    assert blocks == int(printed["num_gpu_blocks"])
    assert int(blocks / request * 512) == int(printed["kv_cache_size_tokens"])
    assert blocks / request == float(printed["kv_cache_max_concurrency"])
    files = (tiny_chat / "model.safetensors").stat().st_size
    assert weight_bytes(shape, tensor_parallel=1) == pytest.approx(files, rel=0.01)


def _case(config: dict[str, Any], ranks: int, context: int, dtype: str) -> tuple[dict[str, Any], Cache]:
    shape = read_shape(config=config)
    cache = cache_of(shape, tensor_parallel=ranks, kv_dtype=dtype)
    block = next(group.block_tokens for group in cache.groups if group.block_tokens)
    case = {
        "layers": _layers(shape), "tensor_parallel": ranks, "context": context, "batched_tokens": BATCHED,
        "memory": MEMORY, "block_tokens": block, "dtype": "bfloat16" if KV_BYTES[dtype] > 1 else "uint8",
        "page_bytes": cache.block_bytes // cache.groups[0].layers,
    }  # fmt: skip
    return case, cache


def _layers(shape: ModelShape) -> list[dict[str, Any]]:
    return [
        {
            "attention": layers.attention.value, "kv_heads": layers.kv_heads, "key_dim": layers.key_dim,
            "window": layers.window, "state_bytes": layers.state_bytes,
        }
        for layers in shape.layers
        for _ in range(layers.count)
    ]  # fmt: skip


def _ours(cache: Cache, case: dict[str, Any]) -> dict[str, Any]:
    blocks = cache.blocks(case["memory"])
    request = cache.request_bytes(context=case["context"], batched_tokens=BATCHED) // cache.block_bytes
    return {
        "blocks": blocks, "groups": len(cache.groups), "tokens": int(blocks / request * case["context"]),
        "at_once": blocks / request,
    }  # fmt: skip


def _vllms(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("cache_arithmetic.py")
    done = subprocess.run(
        [str(VENV / "bin" / "python"), str(script)], input=json.dumps(cases), capture_output=True, text=True,
        timeout=200, check=False, env=os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _labels(metrics: str) -> dict[str, str]:
    line = next(line for line in metrics.splitlines() if line.startswith("vllm:cache_config_info{"))
    return dict(re.findall(r'(\w+)="([^"]*)"', line))


@contextmanager
def _served(program: str, model: Path, log: Path) -> Iterator[str]:
    port = processes.free_port()
    argv = [program, "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "512"]
    argv += ["--max-num-seqs", "4", "--enforce-eager"]
    environ = os.environ | CPU_ENVIRONMENT | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    server = processes.start(argv, log=log, environ=environ)
    url = f"http://127.0.0.1:{port}"
    try:
        until("vLLM is up", lambda: server.poll() is not None or _is_up(url), START_S)
        assert server.poll() is None, log.read_text()[-4_000:]
        yield httpx.get(f"{url}/metrics", timeout=10, trust_env=False).text
    finally:
        processes.stop(server, timeout_s=60)


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
