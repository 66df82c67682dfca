"""What one request costs: nano units from a price version and billed tokens, rounded once."""

from dataclasses import dataclass
from typing import Protocol

from poolhouse_common import amounts

from portal.core.money import MTOK, Nano
from portal.core.records import record

_HALF = MTOK // 2


class PriceTerms(Protocol):
    """Anything that carries the four price fields: a stored version, a snapshot's entry, a draft."""

    @property
    def prompt_nano_per_mtok(self) -> int:
        """Nano units for a million prompt tokens that were not cached."""

    @property
    def cached_nano_per_mtok(self) -> int:
        """Nano units for a million cached prompt tokens."""

    @property
    def completion_nano_per_mtok(self) -> int:
        """Nano units for a million completion tokens."""

    @property
    def request_nano(self) -> int:
        """Nano units for the request itself."""


@record(frozen=True, slots=True)
class Terms:
    """A price that is not stored yet."""

    prompt_nano_per_mtok: int
    cached_nano_per_mtok: int
    completion_nano_per_mtok: int
    request_nano: int = 0


@dataclass(frozen=True, slots=True)
class CostLine:
    """One part of a charge before rounding: `quantity` times `unit_nano`, per million where it is tokens."""

    label: str
    quantity: int
    unit_nano: int


def charge_nano(*, price: PriceTerms, prompt: int, cached: int, completion: int) -> Nano:
    """Return the charge, rounded half up once; `prompt` includes `cached`. Raises ValueError for impossible counts."""
    terms = (
        price.prompt_nano_per_mtok,
        price.cached_nano_per_mtok,
        price.completion_nano_per_mtok,
        price.request_nano,
    )
    return Nano(amounts.charge(terms, prompt=prompt, cached=cached, completion=completion))


def completion_for(*, price: PriceTerms, prompt: int, nano: int) -> int:
    """Return the most completion tokens that `nano` pays for beside the prompt, however that is priced; less than 0:
    not even that. Raises ValueError for a price without completion tokens."""
    if price.completion_nano_per_mtok <= 0:
        raise ValueError("a price without completion tokens pays for any number of them")
    millionths = (nano - price.request_nano + 1) * MTOK - _HALF - 1
    millionths -= prompt * max(price.prompt_nano_per_mtok, price.cached_nano_per_mtok)
    return millionths // price.completion_nano_per_mtok


def cost_lines(*, price: PriceTerms, prompt: int, cached: int, completion: int) -> list[CostLine]:
    """Return the parts that add up to `charge_nano` before its one rounding; parts without quantity are left out."""
    amounts.require_counts(prompt=prompt, cached=cached, completion=completion)
    lines = [
        CostLine("prompt tokens", prompt - cached, price.prompt_nano_per_mtok),
        CostLine("cached prompt tokens", cached, price.cached_nano_per_mtok),
        CostLine("completion tokens", completion, price.completion_nano_per_mtok),
        CostLine("request", 1 if price.request_nano else 0, price.request_nano),
    ]
    return [line for line in lines if line.quantity]
