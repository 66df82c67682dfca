"""When a saved card may be charged, and what a refusal means."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.billing.rules.periods import month_of

FAILURES_UNTIL_OFF = 3
_PAUSES = (timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))
# An outcome nobody knows is looked up at Stripe each round. In the first hour the same call is repeated too, under the
# same key. When nothing was sent for five hours more and Stripe's list still has no payment, there is none.
# Payouts and refunds repeat theirs for as long as Stripe knows the key, then ask a person: they are owed, and a second
# one would be lost. A charge is owed to nobody: hours later it surprises an owner who has long paid by hand, and as
# long as it is in doubt no other may begin. Were it found after all, it is credited like any payment.
REPEATED_FOR = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(hours=6)
# Where the pool's own guard lets no purchase begin, it is asked again this often, or when it said it would.
GUARD_ASKED_EVERY = timedelta(days=1)
NEEDS_OWNER = frozenset({"authentication_required"})
# The bank will never say yes to this card: asking again only looks like fraud.
_FINAL = frozenset(
    {
        "card_not_supported",
        "currency_not_supported",
        "expired_card",
        "fraudulent",
        "invalid_account",
        "invalid_number",
        "lost_card",
        "merchant_blacklist",
        "new_account_information_available",
        "payment_method_not_available",
        "pickup_card",
        "resource_missing",
        "restricted_card",
        "revocation_of_all_authorizations",
        "revocation_of_authorization",
        "stolen_card",
        "stop_payment_order",
        "transaction_not_allowed",
    }
)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a card was not charged: Stripe's code and the bank's; `is_bad_call` where Stripe did not even ask it."""

    code: str
    decline_code: str = ""
    is_bad_call: bool = False

    @property
    def needs_owner(self) -> bool:
        """Whether the card's owner can heal it by confirming on a hosted page."""
        return bool(NEEDS_OWNER & {self.code, self.decline_code})

    @property
    def is_final(self) -> bool:
        """Whether asking again with this card cannot help."""
        return self.is_bad_call or bool(_FINAL & {self.code, self.decline_code})

    @property
    def words(self) -> str:
        """The refusal as a person reads it."""
        return f"the card was refused: {(self.decline_code or self.code or 'no reason given').replace('_', ' ')}"


@dataclass(frozen=True, slots=True)
class Setback:
    """What a refusal does to the settings: how many in a row there are now, when to try again, whether to stop."""

    failures: int
    retry_at: datetime | None
    is_off: bool


def setback(*, failures: int, refused: Refused, now: datetime) -> Setback:
    """Return what follows from one more refusal: a longer pause each time, and the end after the third."""
    count = failures + 1
    if refused.is_final or count >= FAILURES_UNTIL_OFF:
        return Setback(count, None, is_off=True)
    return Setback(count, now + _PAUSES[count - 1], is_off=False)


def has_room(*, spent_minor: int, amount_minor: int, cap_minor: int) -> bool:
    """Tell whether the month's cap lets one more charge through."""
    return spent_minor + amount_minor <= cap_minor


def month_start(now: datetime) -> datetime:
    """Return when the calendar month (UTC) of `now` began."""
    return month_of(now).starts_at
