"""The life of a payout: one transition table."""

from collections.abc import Mapping

from portal.payouts.errors import PayoutMoveRefused

PAYOUT_MOVES: Mapping[str, frozenset[str]] = {
    "draft": frozenset({"reserved", "canceled"}),
    "reserved": frozenset({"approved", "held", "canceled"}),
    "held": frozenset({"reserved", "canceled"}),
    "approved": frozenset({"at_bank", "sending", "reserved", "held", "canceled"}),
    "at_bank": frozenset({"transferred", "approved", "rejected"}),
    "sending": frozenset({"transferred", "unknown", "waiting_funds", "rejected", "approved"}),
    "unknown": frozenset({"sending", "transferred", "needs_review", "approved"}),
    "waiting_funds": frozenset({"sending", "reserved", "held", "canceled"}),
    "needs_review": frozenset({"transferred", "approved", "rejected"}),
    "transferred": frozenset({"reversed"}),
    "rejected": frozenset(),
    "canceled": frozenset(),
    "reversed": frozenset(),
}

MEANINGS = {
    "draft": "Being prepared.",
    "reserved": "Set aside for you; the pool's operator approves it next.",
    "held": "The operator holds it back.",
    "approved": "Approved; it is sent within minutes.",
    "at_bank": "The operator's bank has the order; it is done when the bank says so.",
    "sending": "On its way to Stripe.",
    "transferred": "In your Stripe account; Stripe pays it to your bank by its own schedule.",
    "unknown": "Stripe did not answer; it is looked up before anything else happens.",
    "waiting_funds": "The pool's balance at Stripe does not cover it yet; it is tried again by itself.",
    "needs_review": "An operator has to look at it.",
    "rejected": "Stripe refused it; the money is back in your available balance.",
    "canceled": "Canceled; the money is back in your available balance.",
    "reversed": "Taken back from your Stripe account; the money is back in your available balance.",
}


_BY_BANK = {
    "approved": "Approved; the operator orders it at the bank next.",
    "transferred": "Paid by bank transfer.",
    "rejected": "The operator's bank did not carry it out; the money is back in your available balance.",
    "reversed": "Your bank sent it back; the money is back in your available balance.",
}


def meaning(state: str, rail: str) -> str:
    """Return what the state means for a payout on this rail."""
    return _BY_BANK.get(state, MEANINGS[state]) if rail == "manual" else MEANINGS[state]


def require_move(*, before: str, after: str) -> None:
    """Raise PayoutMoveRefused unless the table allows the move."""
    if after not in PAYOUT_MOVES[before]:
        raise PayoutMoveRefused(f"a payout that is {before} cannot become {after}")
