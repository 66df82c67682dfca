"""How many tokens fit into the KV cache, by vLLM's own rules of blocks and groups (version 0.32).

Layers that remember alike form groups of equally many layers; all groups draw blocks of one size from one pool. A
request takes from each group the blocks that its own kind needs; `GPU KV cache size` in vLLM's log is how many
requests of the full context fit, times that context.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from poolhouse_common.planner.shape import Attention, Layers, ModelShape

KV_BYTES = {"auto": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
_STEP = 16  # blocks that hold states beside attention grow by so many tokens
_SPREADING = 1.5  # vLLM pads the smaller kind up to the larger one while they differ by less than this
_BATCHES_IN_FLIGHT = 2  # while one batch computes, the next is scheduled


@dataclass(frozen=True, slots=True)
class Group:
    """`layers` layers that share block tables; a block holds `block_tokens` tokens of each of them."""

    attention: Attention
    layers: int
    block_tokens: int
    window: int

    def blocks(self, *, context: int, in_flight: int) -> int:
        """Return the most blocks that one request of the full context holds at once."""
        match self.attention:
            case Attention.STATE:
                return 1
            case Attention.SLIDING:
                return -(-min(self.window - 1 + in_flight, context) // self.block_tokens) + 1
        return -(-context // self.block_tokens)


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache of one rank: groups that draw blocks of `block_bytes` from one pool."""

    groups: tuple[Group, ...]
    block_bytes: int

    def request_bytes(self, *, context: int, batched_tokens: int) -> int:
        """Return the most bytes that one request of so many tokens takes on each rank."""
        in_flight = _BATCHES_IN_FLIGHT * batched_tokens
        return self.block_bytes * sum(group.blocks(context=context, in_flight=in_flight) for group in self.groups)

    def blocks(self, memory: int) -> int:
        """Return how many blocks so many bytes hold."""
        return max(0, memory) // self.block_bytes if self.block_bytes else 0


def cache_of(shape: ModelShape, *, tensor_parallel: int, kv_dtype: str = "auto", block_tokens: int = 0) -> Cache:
    """Return how the model's cache is built on one rank; `block_tokens` 0 takes vLLM's own size of a block."""
    size = KV_BYTES[kv_dtype]
    block = block_tokens or shape.block_tokens
    states = max((-(-group.state_bytes // tensor_parallel) for group in shape.layers), default=0)
    widest = max((_token_bytes(group, tensor_parallel, size) for group in shape.layers), default=0)
    if states and widest:
        block = _rounded(-(-states // widest), _STEP)
    page = block * widest if widest else states
    layers = _group_layers(shape.layers)
    groups = tuple(
        _group(group, layers, page, _token_bytes(group, tensor_parallel, size))
        for group in shape.layers
        for _ in range(-(-group.count // layers))
    )
    return Cache(groups, page * layers)


def token_bytes(shape: ModelShape, *, tensor_parallel: int, kv_dtype: str = "auto") -> int:
    """Return the bytes that one more token of a long context takes on one rank: windows and states take none."""
    growing = (Attention.FULL, Attention.LATENT)
    found = (group for group in shape.layers if group.attention in growing)
    return sum(group.count * _token_bytes(group, tensor_parallel, KV_BYTES[kv_dtype]) for group in found)


def _rounded(value: int, step: int) -> int:
    return -(-value // step) * step


def _token_bytes(layers: Layers, ranks: int, size: int) -> int:
    """Bytes a token of one layer on one rank: heads are shared out, but never less than one a rank."""
    match layers.attention:
        case Attention.STATE:
            return 0
        case Attention.LATENT:
            return layers.key_dim * size
    return max(1, layers.kv_heads // ranks) * (layers.key_dim + layers.value_dim) * size


def _group_layers(layers: Sequence[Layers]) -> int:
    counts = [group.count for group in layers]
    if not counts:
        return 1
    return max(counts) if max(counts) < min(counts) * _SPREADING else min(counts)


def _group(layers: Layers, count: int, page: int, token: int) -> Group:
    return Group(layers.attention, count, page // token if token else 0, layers.window)
