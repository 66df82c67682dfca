"""Which model families the planner knows, and what differs between them that config.json does not say."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """How a family is built: `mlp_matrices` is 3 with a gate and 2 without; the others are what its defaults imply.

    `sliding_every` = n: each n-th layer sees everything, the others a window (0: config.json's window is for all).
    """

    mlp_matrices: int = 3
    is_tied: bool = False
    sliding_every: int = 0
    is_encoder: bool = False
    has_attention_bias: bool = False
    head_dim: int = 0
    shared_experts: int = 0


_PLAIN = Family()
_TIED = Family(is_tied=True)

FAMILIES: Mapping[str, Family] = {
    "llama": _PLAIN,
    "mistral": _PLAIN,
    "ministral": _PLAIN,
    "ministral3": _PLAIN,
    "mixtral": _PLAIN,
    "qwen2": Family(has_attention_bias=True),
    "qwen2_moe": Family(has_attention_bias=True),
    "qwen2_5_vl_text": Family(has_attention_bias=True),
    "qwen2_5_vl": Family(has_attention_bias=True),
    "qwen2_vl": Family(has_attention_bias=True),
    "qwen3": _PLAIN,
    "qwen3_moe": _PLAIN,
    "qwen3_vl_text": _PLAIN,
    "qwen3_vl_moe_text": _PLAIN,
    "qwen3_next": _PLAIN,
    "qwen3_5_text": _PLAIN,
    "qwen3_5_moe_text": _PLAIN,
    "gemma": _TIED,
    "gemma2": Family(is_tied=True, sliding_every=2),
    "gemma3_text": Family(is_tied=True, sliding_every=6),
    "deepseek_v2": _PLAIN,
    "deepseek_v3": _PLAIN,
    "kimi_k2": _PLAIN,
    "phi3": _PLAIN,
    "phimoe": _PLAIN,
    "granite": _PLAIN,
    "granitemoe": _PLAIN,
    "olmo2": _PLAIN,
    "olmo3": _PLAIN,
    "olmoe": _PLAIN,
    "cohere": _TIED,
    "cohere2": Family(is_tied=True, sliding_every=4),
    "glm": _PLAIN,
    "glm4": _PLAIN,
    "glm4_moe": _PLAIN,
    "gpt_oss": Family(head_dim=64, has_attention_bias=True),
    "llama4_text": Family(shared_experts=1),
    "smollm3": _PLAIN,
    "seed_oss": _PLAIN,
    "starcoder2": Family(mlp_matrices=2),
    "nemotron": Family(mlp_matrices=2),
    "minimax_m2": _PLAIN,
    "ernie4_5": _PLAIN,
    "ernie4_5_moe": _PLAIN,
    "bert": Family(mlp_matrices=2, is_encoder=True, has_attention_bias=True),
    "roberta": Family(mlp_matrices=2, is_encoder=True, has_attention_bias=True),
    "xlm-roberta": Family(mlp_matrices=2, is_encoder=True, has_attention_bias=True),
}

UNPLANNED: Mapping[str, str] = {
    "mamba": "a model of states only",
    "mamba2": "a model of states only",
    "jamba": "its mix of states and attention is not planned for yet",
    "bamba": "its mix of states and attention is not planned for yet",
    "granitemoehybrid": "its mix of states and attention is not planned for yet",
    "nemotron_h": "its mix of states and attention is not planned for yet",
    "kimi_linear": "its mix of states and attention is not planned for yet",
    "deepseek_v32": "its sparse attention keeps an index that is not planned for yet",
    "deepseek_v4": "its compressed attention is not planned for yet",
    "gemma4_text": "its layers share caches of different sizes, which is not planned for yet",
    "gemma3n_text": "its layers share caches, which is not planned for yet",
}
