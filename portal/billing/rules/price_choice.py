"""Which price holds: the newest that has begun, unless it has ended; and whose price goes before whose."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from portal.billing.rules.rating import PriceTerms


class Dated(PriceTerms, Protocol):
    """A price with its moments in Unix seconds; one that never ends has an infinite end."""

    @property
    def effective_from(self) -> float:
        """From when it holds."""

    @property
    def effective_until(self) -> float:
        """From when it holds no more."""


Price = TypeVar("Price", bound=Dated)


def in_force(versions: Iterable[Price], *, at: float) -> Price | None:
    """Return which of the versions holds at `at`, None where none does.

    `versions` are in the order in which they take effect, without canceled ones. What a newer version replaced does not
    come back when that one ends.
    """
    current: Price | None = None
    for version in versions:
        if version.effective_from > at:
            break
        current = version
    return current if current is not None and at < current.effective_until else None


def payable(*, public: Price, own: Price | None = None, node: Price | None = None) -> Price:
    """Return the price that a request is rated by: what its private node asks, else what was agreed with its
    organization, else the public price."""
    return node or own or public
