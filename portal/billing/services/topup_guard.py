"""Keeps stolen cards from being tried here: asked before every purchase, it refuses with a code and the way on."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts import locks as account_locks
from portal.accounts.models import Organization
from portal.billing.models import TopUpAttempt
from portal.billing.rules import amounts
from portal.billing.rules import attempts as attempt_rules
from portal.billing.rules import risk as rules
from portal.billing.rules import topups as topup_rules
from portal.billing.rules.attempts import DAY, Allowance
from portal.billing.rules.related import FactKind
from portal.billing.selectors import risk as selectors
from portal.billing.services import related
from portal.core import db, money
from portal.core.errors import Conflict, DomainError, Forbidden, InvalidValue


class PurchaseRefused(DomainError):
    """The purchase may not begin now; `again_at` is when it may, as far as that is known."""

    def __init__(
        self, message: str, *, param: str | None = None, fix: str | None = None, again_at: datetime | None = None
    ) -> None:
        super().__init__(message, param=param, fix=fix)
        self.again_at = again_at


class SpendingStopped(PurchaseRefused, Forbidden):
    """The organization may not spend, and so may not buy."""

    code = "spending_stopped"


class TooManyAttempts(PurchaseRefused, Conflict):
    """So many purchases were begun that the next one has to wait."""

    code = "too_many_topup_attempts"


class TopUpCapReached(PurchaseRefused, InvalidValue):
    """The organization may not buy so much within a day yet."""

    code = "topup_cap_reached"


class TooManyCards(PurchaseRefused, Conflict):
    """The organization paid with more cards than one customer should."""

    code = "too_many_cards"


@dataclass(frozen=True, slots=True)
class Terms:
    """How an allowed purchase is to be made."""

    asks_3ds: bool


def least_minor() -> int:
    """Return the smallest purchase that this pool takes, in minor units."""
    return int(settings.TOPUP_MINIMUM_MINOR) or topup_rules.least_minor(settings.CURRENCY)


def require_amount(amount_minor: int) -> None:
    """Raise InvalidValue for an amount that nobody may buy here, whoever it is."""
    least, most = least_minor(), topup_rules.most_minor(settings.CURRENCY)
    if not least <= amount_minor <= most:
        raise InvalidValue(f"Buy {written(least)} to {written(most)} at a time.", param="amount")
    step = money.purchase_step_minor(settings.CURRENCY)
    if amount_minor % step:
        raise InvalidValue(f"Buy a multiple of {written(step)}.", param="amount")


def written(minor: int) -> str:
    """Return minor units of the pool's currency as sentences name them."""
    return amounts.written_minor(minor, settings.CURRENCY)


def require(*, organization: Organization, amount_minor: int, address: str | None, now: datetime) -> Terms:
    """Count the attempt and return how it is to be made; a refused one is not counted.

    Raises SpendingStopped, TopUpCapReached, TooManyCards, TooManyAttempts.
    """
    digest = related.digest_of(kind=FactKind.ADDRESS, value=address) if address else ""
    with transaction.atomic():
        row = account_locks.organization(organization_id=organization.pk)
        _require_spending(row)
        _require_cards(row, now)
        _require_cap(row, amount_minor, now)
        _require_attempts(row, digest, now)
        TopUpAttempt.objects.create(
            organization=row,
            address_digest=digest,
            amount_minor=amount_minor,
            terms=settings.TERMS_URL,
            at=now,
        )
        related.note(organization=row, kind=FactKind.ADDRESS, value=address or "", source="topup", now=now)
    return Terms(asks_3ds=_asks_3ds(row))


def refusal_of_automatic(*, organization: Organization, amount_minor: int, now: datetime) -> PurchaseRefused | None:
    """Return why a saved card may not be charged now, None where it may; nothing is counted.

    Nobody sits before such a charge: there is no address and no authentication.
    """
    try:
        _require_spending(organization)
        _require_cards(organization, now)
        _require_cap(organization, amount_minor, now)
    except PurchaseRefused as refusal:
        return refusal
    return None


def _require_spending(organization: Organization) -> None:
    if organization.stopped_for:
        raise SpendingStopped(
            "This organization may not spend for now, so it may not buy either.", fix="Ask the operator of this pool."
        )


def _require_cards(organization: Organization, now: datetime) -> None:
    if not settings.TOPUP_CARDS:
        return
    cards = selectors.cards_of(organization=organization, since=now - selectors.CARDS_COUNT_FOR)
    if len(cards) > settings.TOPUP_CARDS:
        free_at = cards[settings.TOPUP_CARDS].last_paid_at + selectors.CARDS_COUNT_FOR
        raise TooManyCards(
            f"{len(cards)} different cards have paid within {selectors.CARDS_COUNT_FOR.days} days.",
            fix=f"Wait until {_when(free_at)}, or ask the operator of this pool.",
            again_at=free_at,
        )


def _require_cap(organization: Organization, amount_minor: int, now: datetime) -> None:
    first = int(settings.TOPUP_FIRST_CAP_MINOR)
    if not first:
        return
    buyer = selectors.buyer_of(organization=organization, now=now)
    most = rules.most_in_a_day(buyer, first_minor=first, now=now)
    bought = selectors.bought_since(organization=organization, since=now - DAY)
    left = rules.left_at(buyer, bought=bought, first_minor=first, at=now)
    if amount_minor > left:
        fits = rules.fits_at(buyer, bought=bought, amount_minor=amount_minor, first_minor=first, now=now)
        wait = f"so much may be bought from {_when(fits)} on, " if fits else ""
        raise TopUpCapReached(
            f"At most {written(most)} may be bought within 24 hours for now; {written(max(0, left))} are left of it.",
            param="amount",
            fix=f"{wait}the limit grows with every week and every payment; ask the operator of this pool for more.",
            again_at=fits,
        )


def _require_attempts(organization: Organization, digest: str, now: datetime) -> None:
    own = Allowance(settings.TOPUP_ATTEMPTS_PER_HOUR, settings.TOPUP_ATTEMPTS_PER_DAY)
    counted = [
        attempt_rules.next_at(
            selectors.attempts_of(since=now - DAY, organization_id=organization.pk), allowance=own, now=now
        )
    ]
    if digest:
        with db.advisory_lock(f"poolhouse.topup.address.{digest}"):
            here = Allowance(settings.TOPUP_ADDRESS_ATTEMPTS_PER_HOUR, settings.TOPUP_ADDRESS_ATTEMPTS_PER_DAY)
            from_here = selectors.attempts_of(since=now - DAY, address=digest)
            counted.append(attempt_rules.next_at(from_here, allowance=here, now=now))
    free_at = max((moment for moment in counted if moment is not None), default=None)
    if free_at is not None:
        raise TooManyAttempts(
            "Too many purchases were begun.", fix=f"Try again after {_when(free_at)}.", again_at=free_at
        )


def _asks_3ds(organization: Organization) -> bool:
    found = selectors.risk_of(organization=organization)
    return rules.asks_for_3ds(
        tier=found.in_force if found else "",
        paid_purchases=selectors.paid_purchases(organization=organization),
        first_purchases=settings.TOPUP_AUTHENTICATED_FIRST,
    )


def _when(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
