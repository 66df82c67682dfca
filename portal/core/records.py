"""Dataclasses that are made for every request: frozen for the type checker, plain to the interpreter.

A frozen dataclass sets each field through `object.__setattr__`; for the twenty made for a request that was a
fourteenth of the gateway's time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

__all__ = ["record"]

C = TypeVar("C")

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, slots: bool) -> Callable[[type[C]], type[C]]:
        """Make a dataclass that nobody changes: mypy sees `dataclass(frozen=True, slots=True)`, and refuses to."""
        return dataclass(slots=slots, unsafe_hash=frozen)
