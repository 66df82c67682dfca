"""Keeps stolen cards from being tried here: asked before every purchase, it refuses with a code and the way on."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts import locks as account_locks
from portal.accounts.models import Organization
from portal.billing.models import TopUpAttempt
from portal.billing.rules import attempts as attempt_rules
from portal.billing.rules import risk as rules
from portal.billing.rules import topups as topup_rules
from portal.billing.rules.attempts import DAY, Allowance
from portal.billing.rules.related import FactKind
from portal.billing.selectors import risk as selectors
from portal.billing.services import related
from portal.core import db, money
from portal.core.errors import Conflict, Forbidden, InvalidValue


class SpendingStopped(Forbidden):
    """The organization may not spend, and so may not buy."""

    code = "spending_stopped"


class TooManyAttempts(Conflict):
    """So many purchases were begun that the next one has to wait."""

    code = "too_many_topup_attempts"


class TopUpCapReached(InvalidValue):
    """The organization may not buy so much within a day yet."""

    code = "topup_cap_reached"


class TooManyCards(Conflict):
    """The organization paid with more cards than one customer should."""

    code = "too_many_cards"


@dataclass(frozen=True, slots=True)
class Terms:
    """How an allowed purchase is to be made."""

    asks_3ds: bool


def least_minor() -> int:
    """Return the smallest purchase that this pool takes, in minor units."""
    return int(settings.TOPUP_MINIMUM_MINOR) or topup_rules.least_minor(settings.CURRENCY)


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


def require_automatic(*, organization: Organization, amount_minor: int, now: datetime) -> None:
    """Check a charge of a saved card, which nobody sits before: no address, no authentication, and not counted.

    Raises SpendingStopped, TopUpCapReached, TooManyCards.
    """
    _require_spending(organization)
    _require_cards(organization, now)
    _require_cap(organization, amount_minor, now)


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
            fix=f"Wait until {_written(free_at)}, or ask the operator of this pool.",
        )


def _require_cap(organization: Organization, amount_minor: int, now: datetime) -> None:
    first = int(settings.TOPUP_FIRST_CAP_MINOR)
    if not first:
        return
    buyer = selectors.buyer_of(organization=organization, now=now)
    most = rules.most_in_a_day(buyer, first_minor=first, now=now)
    left = most - selectors.bought_since(organization=organization, since=now - DAY)
    if amount_minor > left:
        raise TopUpCapReached(
            f"At most {_shown(most)} may be bought within 24 hours for now, of which {_shown(max(0, left))} are left.",
            param="amount",
            fix="The limit grows with every week and every payment; ask the operator of this pool for more.",
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
        raise TooManyAttempts("Too many purchases were begun.", fix=f"Try again after {_written(free_at)}.")


def _asks_3ds(organization: Organization) -> bool:
    found = selectors.risk_of(organization=organization)
    return rules.asks_for_3ds(
        tier=found.in_force if found else "",
        paid_purchases=selectors.paid_purchases(organization=organization),
        first_purchases=settings.TOPUP_AUTHENTICATED_FIRST,
    )


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _shown(minor: int) -> str:
    nano = money.nano_from_minor(minor, settings.CURRENCY)
    return f"{money.decimal_text(nano)} {settings.CURRENCY.upper()}"
