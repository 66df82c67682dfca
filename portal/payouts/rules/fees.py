"""What Stripe takes for a payout, by its price list, and who bears it."""

from dataclasses import dataclass

from portal.core.money import BPS


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """A fixed part and a part in basis points of what is sent; `is_borne_by_provider` says who pays it."""

    fixed_minor: int
    bps: int
    is_borne_by_provider: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """A payable amount divided: what is sent, what the provider bears of the fee, and the whole fee."""

    sent_minor: int
    borne_minor: int
    fee_minor: int


def fee_minor(sent_minor: int, terms: FeeTerms) -> int:
    """Return the fee for sending an amount, the proportional part rounded half up."""
    return terms.fixed_minor + (sent_minor * terms.bps + BPS // 2) // BPS if sent_minor > 0 else 0


def parts(payable_minor: int, terms: FeeTerms, *, step: int = 1) -> Parts:
    """Divide what could be paid so that what is sent and what is borne never exceed it.

    `step` is the smallest unit that banks of the currency know.
    """
    if not terms.is_borne_by_provider:
        return Parts(payable_minor, 0, fee_minor(payable_minor, terms))
    sent = max(0, (payable_minor - terms.fixed_minor) * BPS // (BPS + terms.bps))
    sent -= sent % step
    while sent > 0 and sent + fee_minor(sent, terms) > payable_minor:
        sent -= step
    while sent + step + fee_minor(sent + step, terms) <= payable_minor:
        sent += step
    fee = fee_minor(sent, terms)
    return Parts(sent, fee, fee)
