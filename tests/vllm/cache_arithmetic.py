"""Runs in vLLM's own Python: reads layers as JSON, prints the cache that vLLM's own code makes of them.

The layers stand for models that no test machine could load; their arithmetic is what a start prints. No engine starts.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec, MLAAttentionSpec, SlidingWindowSpec

_LAYOUT = "LBNHC"  # layers outermost, as vLLM's attention on NVIDIA GPUs takes it


def spec(layer: dict[str, Any], case: dict[str, Any]) -> Any:
    """vLLM's description of one layer on one rank."""
    common = {"block_size": case["block_tokens"], "dtype": getattr(torch, case["dtype"])}
    heads = max(1, layer["kv_heads"] // case["tensor_parallel"])
    match layer["attention"]:
        case "full":
            return FullAttentionSpec(num_kv_heads=heads, head_size=layer["key_dim"], **common)
        case "sliding":
            return SlidingWindowSpec(
                num_kv_heads=heads, head_size=layer["key_dim"], sliding_window=layer["window"], dcp_sharded=False,
                **common,
            )  # fmt: skip
        case "latent":
            return MLAAttentionSpec(num_kv_heads=1, head_size=layer["key_dim"], **common)
    state = -(-layer["state_bytes"] // case["tensor_parallel"])
    return MambaSpec(
        block_size=case["context"], shapes=((state,),), dtypes=(torch.uint8,), page_size_padded=case["page_bytes"]
    )


def answer(config: VllmConfig, case: dict[str, Any]) -> dict[str, Any]:
    """How many blocks the memory holds, and how many requests of the full context."""
    config.model_config = SimpleNamespace(max_model_len=case["context"])
    config.scheduler_config.max_num_batched_tokens = case["batched_tokens"]
    config.scheduler_config.async_scheduling = True
    layers = {f"layers.{at}": spec(layer, case) for at, layer in enumerate(case["layers"])}
    groups = kv_cache_utils.get_kv_cache_groups(config, layers)
    made = kv_cache_utils.get_kv_cache_config_from_groups(config, groups, case["memory"])
    tokens, at_once = kv_cache_utils.get_kv_cache_capacity(config, made)
    return {"blocks": made.num_blocks, "groups": len(groups), "tokens": tokens, "at_once": at_once}


def main() -> None:
    """Answer every case of standard input."""
    config = VllmConfig()
    config.cache_config.kv_cache_layout = _LAYOUT
    json.dump([answer(config, case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
