"""When two organizations are one party. Shared facts speak; an address alone only whispers: many share one."""

from collections.abc import Iterable
from enum import StrEnum


class FactKind(StrEnum):
    """What two organizations can have in common."""

    PERSON = "person"
    CARD = "card"
    BANK = "bank"
    ADDRESS = "address"
    FLOW = "flow"  # most of what the one spends is earned by the other


class Found(StrEnum):
    """What the shared facts say: nothing, look at it, or one party."""

    NOTHING = ""
    SUSPECTED = "suspected"
    RELATED = "related"


PROOFS = frozenset({FactKind.PERSON, FactKind.CARD, FactKind.BANK})
_FLOW_PART = 2

WORDS = {
    FactKind.PERSON: "the same person belongs to both",
    FactKind.CARD: "the same card paid for both",
    FactKind.BANK: "both are paid to the same bank account",
    FactKind.ADDRESS: "both were seen at the same address",
    FactKind.FLOW: "most of what one spends is earned by the other",
}


def weigh(kinds: Iterable[str]) -> Found:
    """Return what the shared facts say. An address needs a second fact: a proof, or the money's own way."""
    shared = {FactKind(kind) for kind in kinds}
    if shared & PROOFS or {FactKind.ADDRESS, FactKind.FLOW} <= shared:
        return Found.RELATED
    return Found.SUSPECTED if FactKind.ADDRESS in shared else Found.NOTHING


def is_flow(*, spent_with_nano: int, spent_nano: int) -> bool:
    """Tell whether half or more of what a customer spent was earned by the other party."""
    return spent_nano > 0 and spent_with_nano * _FLOW_PART >= spent_nano


def in_words(kinds: Iterable[str]) -> str:
    """Return the shared facts as a sentence."""
    return "; ".join(WORDS[FactKind(kind)] for kind in sorted(kinds))
