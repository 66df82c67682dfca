"""Counts a model's weights part by part, as its config.json implies them."""

from collections.abc import Iterator
from dataclasses import replace

from poolhouse_common.planner.attention import head_dim, kv_heads
from poolhouse_common.planner.families import Family
from poolhouse_common.planner.fields import Config, number, positive, switch, words
from poolhouse_common.planner.quantization import Quantization
from poolhouse_common.planner.shape import Attention, Experts, Layers, Part, Spread

_EXPERTS_ONLY = frozenset({"mxfp4", "experts_int8"})
_MXFP4_WIDTH, _MXFP4_HIDDEN = 128, 256  # vLLM's kernels want the experts' matrices in multiples of these


def experts_of(config: Config) -> Experts | None:
    """Return the mixture of experts, None for a dense model. Raises ConfigRefused."""
    count = number(config, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", default=0)
    if count <= 1:
        return None
    active = positive(config, "num_experts_per_tok", "num_experts_per_token", "moe_k", "experts_per_token")
    return Experts(count, min(active, count), positive(config, "moe_intermediate_size", "intermediate_size"))


def parts_of(
    config: Config, *, family: Family, layers: tuple[Layers, ...], quantization: Quantization
) -> tuple[Part, ...]:
    """Return the weights by part. Raises ConfigRefused."""
    hidden, vocabulary = positive(config, "hidden_size", "n_embd"), positive(config, "vocab_size")
    count = positive(config, "num_hidden_layers", "n_layer", "num_layers")
    tables = vocabulary * hidden
    is_tied = switch(config, "tie_word_embeddings", default=family.is_tied) or family.is_encoder
    positions = number(config, "max_position_embeddings", default=0) * hidden if family.is_encoder else 0
    found = [
        Part("embeddings", tables + positions, tables if is_tied else hidden),
        *([] if is_tied else [Part("output head", tables, tables)]),
        *_attention(config, family, layers, quantization),
        *_feed_forward(config, family, count, quantization),
        Part("norms", (2 * count + 1) * hidden, (2 * count + 1) * hidden, Spread.REPLICATED),
    ]
    if quantization.method in _EXPERTS_ONLY:
        found = [replace(part, is_quantized=part.name == "experts") for part in found]
    return tuple(part for part in found if part.stored)


def vision_part(config: Config) -> Part | None:
    """Return the weights that see images, None where there are none. They are loaded though only text is served."""
    depth = number(config, "num_hidden_layers", "depth", default=0)
    width = number(config, "hidden_size", "embed_dim", default=0)
    if not depth or not width:
        return None
    inner = number(config, "intermediate_size", default=4 * width)
    weights = depth * (4 * width * width + 2 * width * inner)
    return Part("vision", weights, 0, Spread.REPLICATED)


def _attention(
    config: Config, family: Family, layers: tuple[Layers, ...], quantization: Quantization
) -> Iterator[Part]:
    hidden, heads = positive(config, "hidden_size", "n_embd"), positive(config, "num_attention_heads", "n_head")
    count = positive(config, "num_hidden_layers", "n_layer", "num_layers")
    if any(group.attention is Attention.LATENT for group in layers):
        yield from _latent_attention(config, count, is_unpacked=bool(quantization.method))
        return
    states = sum(group.count for group in layers if group.attention is Attention.STATE)
    yield from _state_attention(config, hidden, states)
    width, keepers, seeing = head_dim(config, family), kv_heads(config), count - states
    has_bias = switch(config, "attention_bias", default=family.has_attention_bias)
    gate = 3 if states or switch(config, "attn_output_gate") else 2
    queries = seeing * (gate * hidden * heads * width + has_bias * heads * width)
    keys = seeing * 2 * keepers * width * (hidden + has_bias)
    yield Part("attention", queries, queries, is_quantized=True)
    yield Part("keys and values", keys, keys, Spread.KV_HEADS, is_quantized=True)


def _latent_attention(config: Config, count: int, *, is_unpacked: bool) -> Iterator[Part]:
    """Multi-head latent attention; of quantized weights vLLM keeps the up-projections in 16 bits as well."""
    hidden, heads = positive(config, "hidden_size", "n_embd"), positive(config, "num_attention_heads", "n_head")
    latent, rope = positive(config, "kv_lora_rank"), number(config, "qk_rope_head_dim")
    plain, value = positive(config, "qk_nope_head_dim"), positive(config, "v_head_dim")
    rank = number(config, "q_lora_rank", default=0)
    down = count * hidden * (rank + latent + rope)
    queries = count * (rank or hidden) * heads * (plain + rope)
    up = count * latent * heads * (plain + value)
    out = count * heads * value * hidden
    yield Part("latent projections", down, down, Spread.REPLICATED, is_quantized=True)
    yield Part("attention", queries + out + up, queries + out + up, is_quantized=True)
    if is_unpacked:
        yield Part("absorbed projections", 0, 0, padded=up)


def _state_attention(config: Config, hidden: int, count: int) -> Iterator[Part]:
    if not count:
        return
    keys = positive(config, "linear_num_key_heads") * positive(config, "linear_key_head_dim")
    heads = positive(config, "linear_num_value_heads")
    values = heads * positive(config, "linear_value_head_dim")
    kernel = positive(config, "linear_conv_kernel_dim")
    matrices = count * hidden * (2 * keys + 3 * values)
    small = count * (2 * hidden * heads + kernel * (2 * keys + values) + 2 * heads)
    yield Part("linear attention", matrices, matrices, is_quantized=True)
    yield Part("linear attention gates", small, small)


def _feed_forward(config: Config, family: Family, count: int, quantization: Quantization) -> Iterator[Part]:
    hidden, experts = positive(config, "hidden_size", "n_embd"), experts_of(config)
    sparse = _sparse_layers(config, count) if experts else 0
    width = number(config, "intermediate_size_mlp", "intermediate_size", "n_inner", default=4 * hidden)
    dense = (count - sparse) * family.mlp_matrices * hidden * width
    yield Part("feed forward", dense, dense, is_quantized=True)
    if experts is None:
        return
    one = family.mlp_matrices * hidden * experts.width
    shared = sparse * family.mlp_matrices * hidden * _shared_width(config, family, experts)
    router = sparse * experts.count * hidden
    padded = sparse * experts.count * family.mlp_matrices * _padded(hidden, experts.width)
    yield Part(
        "experts", sparse * experts.count * one, sparse * experts.active * one, is_quantized=True,
        padded=padded if quantization.method == "mxfp4" else 0,
    )  # fmt: skip
    yield Part("shared experts", shared, shared, is_quantized=True)
    yield Part("router", router, router, Spread.REPLICATED)


def _sparse_layers(config: Config, count: int) -> int:
    """How many layers hold experts: all but the first ones, or each n-th."""
    dense_first = number(config, "first_k_dense_replace", default=0)
    step = number(config, "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", default=1) or 1
    return max(0, count - dense_first - len(words(config, "mlp_only_layers"))) // step


def _shared_width(config: Config, family: Family, experts: Experts) -> int:
    wide = number(config, "shared_expert_intermediate_size", default=0)
    count = number(config, "n_shared_experts", "num_shared_experts", default=family.shared_experts)
    return wide or count * experts.width


def _padded(hidden: int, width: int) -> int:
    return _rounded(hidden, _MXFP4_HIDDEN) * _rounded(width, _MXFP4_WIDTH)


def _rounded(value: int, step: int) -> int:
    return -(-value // step) * step
