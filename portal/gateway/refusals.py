"""Why a request finds no money: the customer's credit, his own running requests, a budget, or our database."""

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from django.conf import settings

from portal.billing.rules.windows import BudgetTerms
from portal.core.errors import DomainError
from portal.core.money import decimal_text

_EACH: Final = {"day": "daily", "week": "weekly", "month": "monthly"}


class MoneyRefused(DomainError):
    """Nothing could be held: the request does not begin, or its stream ends here."""


class CreditExhausted(MoneyRefused):
    """The organization's credit does not cover the request's upper bound."""

    code = "credit_balance_exhausted"


class CreditHeld(MoneyRefused):
    """The credit would cover the request, but other requests hold it until they end."""

    code = "credit_held"


class BudgetExhausted(MoneyRefused):
    """A budget of the key, its project or its organization does not cover the request's upper bound."""

    code = "key_budget_exhausted"


class HoldEnded(DomainError):
    """The request ended while more was being held for it."""

    code = "hold_ended"


class BillingUnavailable(MoneyRefused):
    """Neither a lease nor the database can cover the request now."""

    code = "billing_unavailable"


def credit_exhausted(*, nano: int, balance: int, held: int) -> CreditExhausted:
    """Return the refusal with its numbers."""
    return CreditExhausted(
        f"Your credit of {amount(balance)} ({amount(held)} of it held by running requests, {amount(balance - held)} "
        f"left) does not cover this request, which needs up to {amount(nano)}.",
        fix="Add credit, or lower max_tokens.",
    )


def credit_held(*, nano: int, balance: int, held: int) -> CreditHeld:
    """Return the refusal with its numbers."""
    return CreditHeld(
        f"Of your credit of {amount(balance)}, {amount(held)} is held by requests that still run and "
        f"{amount(balance - held)} is left; this request needs up to {amount(nano)}.",
        fix="Retry when running requests have ended, send fewer at once, or lower max_tokens.",
    )


def budget_exhausted(
    *, terms: BudgetTerms, nano: int, cap: int, used: int, held: int, resets_at: datetime | None
) -> BudgetExhausted:
    """Return the refusal with its numbers, whose budget it is, and the time of the reset in the budget's zone."""
    whose = _whose(terms.owner)
    name = "lifetime" if terms.period == "lifetime" else _EACH[terms.period]
    return BudgetExhausted(
        f"The {name} budget of {whose}, {amount(cap)}, has {amount(max(0, cap - used - held))} left "
        f"({amount(used)} spent, {amount(held)} held by running requests); this request needs up to {amount(nano)}. "
        f"{_reset(terms.zone, resets_at)}",
        fix="Wait for running requests to end, lower max_tokens, raise the budget, or wait for its reset.",
    )


def _whose(owner: str) -> str:
    if owner.startswith("org_"):
        return "your organization"
    return "this key's project" if owner.startswith("proj_") else "this key"


def _reset(zone: str, at: datetime | None) -> str:
    if at is None:
        return "It never resets."
    return f"It resets at {at.astimezone(ZoneInfo(zone)).isoformat(timespec='seconds')} ({zone})."


def billing_unavailable() -> BillingUnavailable:
    """Return the refusal for a database that does not answer."""
    return BillingUnavailable(
        "Credit cannot be checked right now, so nothing was started and nothing is charged.", fix="Retry shortly."
    )


def unrecorded() -> BillingUnavailable:
    """Return the refusal for a spool that cannot be written; why not is the operator's to read."""
    return BillingUnavailable("Usage cannot be recorded right now, so nothing is charged.", fix="Retry shortly.")


def ended(refusal: MoneyRefused) -> MoneyRefused:
    """Return the refusal as it ends a stream: what was delivered is charged, and no more."""
    return type(refusal)(
        f"The answer ends here, because no more could be held for the rest of it. {refusal.message} "
        "What was delivered is charged.",
        fix=refusal.fix,
    )


def amount(nano: int) -> str:
    """Return an amount as people write it."""
    return f"{decimal_text(nano)} {settings.CURRENCY.upper()}"
