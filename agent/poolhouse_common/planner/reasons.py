"""Why a plan does not hold."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a code of the failure catalogue, and what is so here."""

    code: str
    detail: str
