"""Reads what a visitor writes of a machine: "3 x 4090, 0.30/kWh"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from poolhouse_common import planner

from portal.core.money import Nano, nano_from_text

MAX_LETTERS = 120
USUAL_KWH = "0.30"
_KWH = re.compile(
    r"[,;@]?\s*(?:at\s+)?[^\d\s,;]{0,3}\s*(\d{1,4}(?:[.,]\d{1,6})?)\s*[^\d\s,;/]{0,5}\s*(?:/|per|a)\s*kwh",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What was written: the GPUs, and the price of a kilowatt hour, which is assumed where it was left out."""

    gpus: tuple[planner.Gpu, ...]
    kwh_nano: Nano
    has_price: bool


def read_machine(text: str, kinds: Sequence[planner.GpuKind]) -> Machine:
    """Return the machine. Raises planner.GpusRefused."""
    found = _KWH.search(text)
    price = found[1].replace(",", ".") if found else USUAL_KWH
    named = f"{text[: found.start()]},{text[found.end() :]}" if found else text
    return Machine(tuple(planner.parse_gpus(named, kinds)), nano_from_text(price), found is not None)
