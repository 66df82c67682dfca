"""Shares out one GPU's memory as vLLM does: what it may use, less weights, activations, graphs and libraries."""

from dataclasses import dataclass

from poolhouse_common.planner import overheads, weights
from poolhouse_common.planner.gpus import Gpu
from poolhouse_common.planner.kv_cache import cache_of
from poolhouse_common.planner.shape import ModelShape

# What the driver keeps for itself: CUDA sees that much less than NVML's total (24564 MiB become 24115 on a 4090,
# 81559 become 81121 on an H100: the totals in vLLM's own logs).
DRIVER_BYTES = 445 << 20
_TENTHS = 10_000


@dataclass(frozen=True, slots=True)
class Load:
    """What one engine is to serve: so many concurrent requests of so many tokens, on so many ranks, and how."""

    context: int
    concurrency: int
    tensor_parallel: int
    kv_dtype: str = "auto"
    utilization: float = 0.90
    batched_tokens: int = 0
    block_tokens: int = 0
    is_eager: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes of one GPU: `usable` is what vLLM may take of `total`; the parts stand beside it; `cache` is the rest.

    `request` is what one request of the full context takes at most; `cache` below 0 says how much is missing.
    """

    total: int
    usable: int
    weights: int
    activations: int
    graphs: int
    libraries: int
    cache: int
    request: int
    cache_blocks: int
    request_blocks: int

    def concurrency(self) -> float:
        """Return how many requests of the full context fit, as vLLM prints it: its maximum concurrency."""
        return self.cache_blocks / self.request_blocks if self.request_blocks else 0.0

    def tokens(self, context: int) -> int:
        """Return the size of the cache in tokens as vLLM prints it."""
        return int(self.concurrency() * context)


def budget_of(shape: ModelShape, gpu: Gpu, load: Load) -> Budget:
    """Return how the memory of one such GPU is shared out."""
    total = max(0, gpu.memory_bytes - DRIVER_BYTES)
    usable = total * round(load.utilization * _TENTHS) // _TENTHS
    ranks = load.tensor_parallel
    tokens = load.batched_tokens or overheads.batched_tokens(memory_bytes=total, gpu=gpu.name)
    held = weights.weight_bytes(shape, tensor_parallel=ranks)
    active = overheads.activation_bytes(shape, tensor_parallel=ranks, tokens=tokens, sequences=load.concurrency)
    graphs = overheads.graph_bytes(shape, sequences=load.concurrency, is_eager=load.is_eager)
    libraries = overheads.non_torch_bytes(tensor_parallel=ranks)
    left = usable - held - active - graphs - libraries
    cache = cache_of(shape, tensor_parallel=ranks, kv_dtype=load.kv_dtype, block_tokens=load.block_tokens)
    request = cache.request_bytes(context=load.context, batched_tokens=tokens)
    return Budget(
        total=total, usable=usable, weights=held, activations=active, graphs=graphs, libraries=libraries, cache=left,
        request=request, cache_blocks=cache.blocks(left),
        request_blocks=request // cache.block_bytes if cache.block_bytes else 0,
    )  # fmt: skip
