"""How long and how large: a whole suite for a person or a drained node, a short one for every week."""

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds and sizes of a suite."""

    product_s: float = 5.0
    soak_s: float = 60.0
    repeats: int = 50
    disk_bytes: int = 512 * _MIB
    network_bytes: int = 4 * _MIB
    answers: int = 16
    output_tokens: int = 128
    serving_s: float = 300.0


WHOLE = Lengths()
# Where the GPUs are not there: the machine below is not to suffer, nor to wait.
SIMULATED = Lengths(
    product_s=0.1, soak_s=0.1, repeats=1, disk_bytes=8 * _MIB, network_bytes=_MIB // 2, answers=4, output_tokens=16,
    serving_s=4.0,
)  # fmt: skip
SHORT = Lengths(
    product_s=2.0, soak_s=20.0, repeats=20, disk_bytes=128 * _MIB, network_bytes=2 * _MIB, answers=8, output_tokens=48,
    serving_s=90.0,
)  # fmt: skip
