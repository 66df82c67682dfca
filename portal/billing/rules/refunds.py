"""The life of a refund, what of a purchase can be given back, and how tax goes with it."""

from collections.abc import Mapping
from dataclasses import dataclass

from portal.core import money
from portal.core.errors import Conflict

REFUND_MOVES: Mapping[str, frozenset[str]] = {
    "requested": frozenset({"reserved", "canceled"}),
    "reserved": frozenset({"sending", "canceled"}),
    "sending": frozenset({"pending", "succeeded", "failed", "unknown", "reserved"}),
    "unknown": frozenset({"sending", "reserved", "pending", "succeeded", "failed", "needs_review"}),
    "needs_review": frozenset({"reserved", "pending", "succeeded", "failed"}),
    "pending": frozenset({"succeeded", "failed"}),
    "succeeded": frozenset({"failed"}),  # a bank may send the money back days later
    "failed": frozenset(),
    "canceled": frozenset(),
}

MEANINGS = {
    "requested": "The operator of the pool decides; the amount is set aside until then.",
    "reserved": "Approved; it is sent within minutes.",
    "sending": "On its way to Stripe.",
    "unknown": "Stripe did not answer; it is looked up before anything else happens.",
    "needs_review": "An operator has to look at it.",
    "pending": "Stripe has it and has not finished it yet.",
    "succeeded": "Stripe has sent it; a bank takes up to ten days to show it.",
    "failed": "It could not be sent; the amount is credit again.",
    "canceled": "It was not sent; the amount is credit again.",
}

# What Stripe calls a refund, and what that is here.
_STATES = {
    "pending": "pending",
    "requires_action": "pending",
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "failed",
}

CAME_TO_NOTHING = frozenset({"failed", "canceled"})


class RefundMoveRefused(Conflict):
    """The refund is in a state that does not allow this."""

    code = "refund_move_refused"


class RefundStatusUnknown(Conflict):
    """Stripe has a word for the refund that this version does not know; it waits for one that does."""

    code = "refund_status_unknown"


@dataclass(frozen=True, slots=True)
class Purchase:
    """A paid purchase in minor units: what was paid, the tax in it, and what of both is refunded or on its way."""

    paid: int
    tax: int
    refunded: int
    refunded_tax: int


def require_move(*, before: str, after: str) -> None:
    """Raise RefundMoveRefused unless the table allows the move."""
    if after not in REFUND_MOVES[before]:
        raise RefundMoveRefused(f"a refund that is {before} cannot become {after}")


def state_of(status: str) -> str:
    """Return the state that Stripe's word stands for. Raises RefundStatusUnknown."""
    if status not in _STATES:
        raise RefundStatusUnknown(f"Stripe calls the refund {status!r}")
    return _STATES[status]


def may_become(*, before: str, after: str) -> bool:
    """Tell whether Stripe's newer word moves the refund; words that come late or twice do not."""
    return after != before and after in REFUND_MOVES[before]


def tax_part(purchase: Purchase, *, amount: int) -> int:
    """Return the tax in a refund of `amount`; over all refunds of the purchase the parts add up to its tax."""
    so_far = min(purchase.paid, purchase.refunded + amount)
    return max(0, purchase.tax * so_far // purchase.paid - purchase.refunded_tax)


def refundable(purchase: Purchase, *, free_nano: int, currency: str) -> int:
    """Return what can be given back in minor units: never more than was paid, nor than is unspent and not held."""
    left = purchase.paid - purchase.refunded
    if left <= 0 or free_nano <= 0:
        return 0
    free = free_nano // money.nano_per_minor(currency)
    untaxed = purchase.paid - purchase.tax
    most = left if untaxed <= 0 else min(left, -(-free * purchase.paid // untaxed))
    while most > 0 and most - tax_part(purchase, amount=most) > free:
        most -= 1
    return most
