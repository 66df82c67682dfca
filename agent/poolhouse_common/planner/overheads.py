"""What vLLM takes beside weights and cache: activations, CUDA graphs and what PyTorch does not count.

The coefficients were fitted to what vLLM's own logs say and hold them within the planner's tolerance; the sources
stand with the test values (tests/unit/planner).
"""

from poolhouse_common.planner.shape import ModelShape

MIB = 1 << 20
_WIDTHS = 3  # hidden and inner vectors that are alive at once in a layer's forward pass
_SAMPLER_BYTES = 39  # a sequence and word of the vocabulary: logits, sorted copies and sums in 32 and 64 bits
_GRAPH_BYTES = 335_000  # a captured batch size and layer
_NON_TORCH, _NON_TORCH_RANKS = 420 * MIB, 700 * MIB  # workspaces of the libraries; NCCL's buffers from two ranks on
_MOST_CAPTURED = 512
_HUGE, _LARGE = 160 << 30, 70 << 30


def batched_tokens(*, memory_bytes: int, gpu: str) -> int:
    """Return how many tokens vLLM computes in one step on this GPU where nothing else is asked for."""
    if memory_bytes >= _HUGE:
        return 16_384
    return 8192 if memory_bytes >= _LARGE and "a100" not in gpu.lower() else 2048


def activation_bytes(shape: ModelShape, *, tensor_parallel: int, tokens: int, sequences: int) -> int:
    """Return the peak of one step: the widest layer over all its tokens, or sampling for all its sequences."""
    size = 4 if shape.dtype == "float32" else 2
    forward = (
        tokens * size * (_WIDTHS * shape.hidden + max(_feed(shape, tensor_parallel), _see(shape, tensor_parallel)))
    )
    return max(forward, 0 if shape.is_embedding else sequences * shape.vocabulary * _SAMPLER_BYTES)


def graph_bytes(shape: ModelShape, *, sequences: int, is_eager: bool) -> int:
    """Return what the captured CUDA graphs take: one for each batch size of vLLM's list, through every layer."""
    return 0 if is_eager else _GRAPH_BYTES * len(captured_sizes(sequences)) * shape.layer_count


def captured_sizes(sequences: int) -> list[int]:
    """Return the batch sizes that vLLM captures for so many concurrent sequences."""
    largest = min(2 * sequences, _MOST_CAPTURED)
    small = [size for size in (1, 2, 4) if size <= largest]
    return small + list(range(8, min(largest + 1, 256), 8)) + list(range(256, largest + 1, 16))


def non_torch_bytes(*, tensor_parallel: int) -> int:
    """Return what libraries take that PyTorch's allocator does not see."""
    return _NON_TORCH if tensor_parallel == 1 else _NON_TORCH_RANKS


def _feed(shape: ModelShape, ranks: int) -> int:
    if shape.experts is None:
        return -(-_WIDTHS * shape.intermediate // ranks)
    wide = -(-2 * shape.experts.width // ranks)
    return shape.experts.active * (max(wide, shape.hidden) + wide // 2)


def _see(shape: ModelShape, ranks: int) -> int:
    return -(-2 * shape.attention_width // ranks)
