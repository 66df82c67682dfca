"""How fast a model can be on given GPUs, from what they can read and multiply: a bound, brought down by stated shares.

The shares are assumptions, shown with every figure that comes of them; a measured figure always stands before them.
"""

from dataclasses import dataclass

from poolhouse_common.planner.gpus import GpuKind
from poolhouse_common.planner.kv_cache import token_bytes
from poolhouse_common.planner.plan import Plan
from poolhouse_common.planner.shape import ModelShape, Part
from poolhouse_common.planner.weights import part_bytes

BANDWIDTH_PERCENT = 60
COMPUTE_PERCENT = 50
SPREAD_PERCENT = 75  # what remains of both when several GPUs must agree after every layer


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second of one engine: prompts read with nothing else to do, and answers written by all requests."""

    prefill: float
    decode: float

    def requests_a_second(self, *, prompt: int, completion: int) -> float:
        """Return how many requests of that kind pass, one's prompt after the other while answers wait."""
        seconds = prompt / self.prefill + completion / self.decode if self.prefill and self.decode else 0.0
        return 1 / seconds if seconds else 0.0


def speed_of(plan: Plan, *, kind: GpuKind, sequences: int, context: int) -> Speed:
    """Return the speed of the planned engine on such GPUs with so many requests of that length at once."""
    ranks = plan.tensor_parallel
    shared = ranks * (SPREAD_PERCENT if ranks > 1 else 100) / 100
    bandwidth = kind.bandwidth * shared * BANDWIDTH_PERCENT / 100
    flops = (kind.measured_flops or kind.flops) * shared * COMPUTE_PERCENT / 100
    work = 2 * plan.shape.active_parameters
    held = ranks * token_bytes(plan.shape, tensor_parallel=ranks, kv_dtype=plan.load.kv_dtype) * context
    step = max((read_bytes(plan.shape, sequences) + sequences * held) / bandwidth, sequences * work / flops)
    return Speed(prefill=flops / work, decode=sequences / step)


def read_bytes(shape: ModelShape, sequences: int) -> int:
    """Return the bytes of weights that one step reads for so many sequences; of experts those that any needs."""
    return sum(_read(shape, part, sequences) for part in shape.parts)


def _read(shape: ModelShape, part: Part, sequences: int) -> int:
    weights = part.active
    if part.name == "experts" and shape.experts:
        untouched = (1 - shape.experts.active / shape.experts.count) ** sequences
        weights = int(part.parameters * (1 - untouched))
    return part_bytes(shape, part, weights)
