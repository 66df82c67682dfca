"""What each layer of a model remembers, read from config.json."""

from collections import Counter
from collections.abc import Mapping

from poolhouse_common.planner.errors import ConfigRefused
from poolhouse_common.planner.families import Family
from poolhouse_common.planner.fields import Config, number, positive, switch, words
from poolhouse_common.planner.shape import Attention, Layers

_KINDS: Mapping[str, Attention] = {
    "full_attention": Attention.FULL,
    "attention": Attention.FULL,
    "sliding_attention": Attention.SLIDING,
    "chunked_attention": Attention.SLIDING,
    "linear_attention": Attention.STATE,
}
_MOST_LAYERS = 4096
_CONV_BYTES, _STATE_BYTES = 2, 4  # vLLM keeps the convolution in the model's 16 bits and the state in 32


def layers_of(config: Config, family: Family) -> tuple[Layers, ...]:
    """Return the layers by what they remember. Raises ConfigRefused."""
    count = positive(config, "num_hidden_layers", "n_layer", "num_layers")
    if count > _MOST_LAYERS:
        raise ConfigRefused("model_config_invalid", f"{count} layers are more than any model has")
    if family.is_encoder:
        return ()
    if "kv_lora_rank" in config:
        width = positive(config, "kv_lora_rank") + number(config, "qk_rope_head_dim")
        return (Layers(Attention.LATENT, count, kv_heads=1, key_dim=width),)
    kinds = _kinds(config, family, count)
    return tuple(_layers(config, family, kind, kinds[kind]) for kind in Attention if kinds[kind])


def head_dim(config: Config, family: Family) -> int:
    """Return the width of one attention head. Raises ConfigRefused."""
    derived = positive(config, "hidden_size", "n_embd") // positive(config, "num_attention_heads", "n_head")
    return number(config, "head_dim", default=family.head_dim or derived) or derived


def kv_heads(config: Config) -> int:
    """Return how many heads keep keys and values: as many as there are heads where config.json is silent."""
    return positive(config, "num_key_value_heads", "num_attention_heads", "n_head")


def _kinds(config: Config, family: Family, count: int) -> Counter[Attention]:
    if named := words(config, "layer_types"):
        unknown = set(named) - set(_KINDS)
        if unknown or len(named) != count:
            raise ConfigRefused("architecture_unknown", f"layer_types has {', '.join(sorted(unknown))[:80] or 'gaps'}")
        return Counter(_KINDS[name] for name in named)
    if every := number(config, "full_attention_interval", default=0):
        return _alternating(count, every, Attention.STATE)
    if config.get("attention_chunk_size"):
        return _alternating(count, 4, Attention.SLIDING)
    if not _window(config) or not switch(config, "use_sliding_window", default=True):
        return Counter({Attention.FULL: count})
    every = number(config, "sliding_window_pattern", default=family.sliding_every)
    return _alternating(count, every, Attention.SLIDING) if every else Counter({Attention.SLIDING: count})


def _alternating(count: int, every: int, other: Attention) -> Counter[Attention]:
    return Counter({Attention.FULL: count // every, other: count - count // every})


def _window(config: Config) -> int:
    return number(config, "sliding_window", "attention_chunk_size", default=0)


def _layers(config: Config, family: Family, kind: Attention, count: int) -> Layers:
    if kind is Attention.STATE:
        return Layers(kind, count, state_bytes=_state_bytes(config))
    width = head_dim(config, family)
    window = _window(config) if kind is Attention.SLIDING else 0
    return Layers(kind, count, kv_heads=kv_heads(config), key_dim=width, value_dim=width, window=window)


def _state_bytes(config: Config) -> int:
    """A gated delta net's state: the last inputs of its convolution, and a matrix for each value head."""
    key_dim, value_dim = positive(config, "linear_key_head_dim"), positive(config, "linear_value_head_dim")
    key_heads, value_heads = positive(config, "linear_num_key_heads"), positive(config, "linear_num_value_heads")
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    remembered = (positive(config, "linear_conv_kernel_dim") - 1) * channels
    return remembered * _CONV_BYTES + value_heads * key_dim * value_dim * _STATE_BYTES
