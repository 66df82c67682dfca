"""What Stripe's words for a dispute mean here, and when a lost one is written off."""

from datetime import datetime, timedelta

OPEN = frozenset({"warning_needs_response", "warning_under_review", "needs_response", "under_review"})
ANSWERABLE = frozenset({"warning_needs_response", "needs_response"})
WON = frozenset({"won", "warning_closed", "prevented"})
LOST = "lost"

MEANINGS = {
    "warning_needs_response": "The bank asks. No money has moved; an answer may prevent a dispute.",
    "warning_under_review": "The bank reads the answer. No money has moved.",
    "warning_closed": "The bank asked and let it go.",
    "needs_response": "The money is withdrawn. Evidence can be sent until the date shown.",
    "under_review": "The evidence is with the bank.",
    "won": "Won: the money came back.",
    "lost": "Lost: the money stays with the cardholder.",
    "prevented": "It was settled before it became a dispute.",
}


def is_open(status: str) -> bool:
    """Tell whether the bank has not decided; a word that we do not know counts as open."""
    return status in OPEN or (status not in WON and status != LOST)


def writes_off_at(*, lost_at: datetime, days: int) -> datetime:
    """Return when what the customer still owes for a lost dispute becomes bad debt."""
    return lost_at + timedelta(days=days)
