"""How many bytes of weights each rank holds."""

from poolhouse_common.planner.shape import ModelShape, Part, Spread

_HALF = 2


def weight_bytes(shape: ModelShape, *, tensor_parallel: int) -> int:
    """Return the bytes of weights on one rank; where the files' size is known, the parts are scaled to it."""
    counted = sum(_bytes(shape, part, tensor_parallel) for part in shape.parts)
    if not shape.weight_bytes:
        return counted
    loaded = sum(_bytes(shape, part, 1) for part in shape.parts if not part.padded)
    grown = sum(_bytes(shape, part, tensor_parallel) for part in shape.parts if part.padded)
    plain = sum(_stored(shape, part) for part in shape.parts if part.padded)
    share = counted - grown
    return share * max(0, shape.weight_bytes - plain) // max(1, loaded) + grown


def read_bytes_a_token(shape: ModelShape) -> int:
    """Return the bytes of weights that one token of one sequence makes the GPUs read, over all ranks."""
    return sum(_sized(shape, part, part.active) for part in shape.parts)


def _bytes(shape: ModelShape, part: Part, ranks: int) -> int:
    return -(-_sized(shape, part, part.stored) // _shares(shape, part, ranks))


def _stored(shape: ModelShape, part: Part) -> int:
    return _sized(shape, part, part.parameters)


def _sized(shape: ModelShape, part: Part, weights: int) -> int:
    return shape.quantization.bytes_of(weights) if part.is_quantized else _HALF * weights


def _shares(shape: ModelShape, part: Part, ranks: int) -> int:
    match part.spread:
        case Spread.SHARDED:
            return ranks
        case Spread.KV_HEADS:
            return min(ranks, shape.kv_heads) or 1
    return 1
