"""How many bytes of weights each rank holds."""

from poolhouse_common.planner.shape import ModelShape, Part, Spread

_HALF = 2


def weight_bytes(shape: ModelShape, *, tensor_parallel: int) -> int:
    """Return the bytes of weights on one rank; where the files' size is known, what was counted is scaled to it."""
    held = sum(-(-part_bytes(shape, part, part.stored) // _ranks(shape, part, tensor_parallel)) for part in shape.parts)
    in_files = sum(part_bytes(shape, part, part.parameters) for part in shape.parts)
    return held * shape.weight_bytes // in_files if shape.weight_bytes and in_files else held


def part_bytes(shape: ModelShape, part: Part, weights: int) -> int:
    """Return the bytes of so many weights of the part, in the model's format where the part is quantized."""
    return shape.quantization.bytes_of(weights) if part.is_quantized else _HALF * weights


def _ranks(shape: ModelShape, part: Part, ranks: int) -> int:
    """Over how many ranks the part is spread."""
    match part.spread:
        case Spread.SHARDED:
            return ranks
        case Spread.KV_HEADS:
            return min(ranks, shape.kv_heads) or 1
    return 1
