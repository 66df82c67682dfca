"""Why a request finds no money: the customer's credit, his own running requests, the key's budget, or our database."""

from datetime import datetime

from django.conf import settings

from portal.core.errors import DomainError
from portal.core.money import decimal_text


class CreditExhausted(DomainError):
    """The organization's credit does not cover the request's upper bound."""

    code = "credit_balance_exhausted"


class CreditHeld(DomainError):
    """The credit would cover the request, but other requests hold it until they end."""

    code = "credit_held"


class BudgetExhausted(DomainError):
    """The key's monthly budget does not cover the request's upper bound."""

    code = "key_budget_exhausted"


class BillingUnavailable(DomainError):
    """Neither a lease nor the database can cover the request now."""

    code = "billing_unavailable"


def credit_exhausted(*, nano: int, balance: int, held: int) -> CreditExhausted:
    """Return the refusal with its numbers."""
    return CreditExhausted(
        f"Your credit of {amount(balance)} ({amount(held)} of it held by running requests, {amount(balance - held)} "
        f"left) does not cover this request, which can cost up to {amount(nano)}.",
        fix="Add credit, or lower max_tokens.",
    )


def credit_held(*, nano: int, balance: int, held: int) -> CreditHeld:
    """Return the refusal with its numbers."""
    return CreditHeld(
        f"Of your credit of {amount(balance)}, {amount(held)} is held by requests that still run and "
        f"{amount(balance - held)} is left; this request can cost up to {amount(nano)}.",
        fix="Wait for running requests to end, send fewer at once, lower max_tokens, or add credit.",
    )


def budget_exhausted(*, nano: int, cap: int, used: int, held: int, resets_at: datetime) -> BudgetExhausted:
    """Return the refusal with its numbers and the time of the reset."""
    return BudgetExhausted(
        f"This key's monthly budget of {amount(cap)} has {amount(max(0, cap - used - held))} left "
        f"({amount(used)} used, {amount(held)} held by running requests); this request can cost up to {amount(nano)}. "
        f"The budget resets at {resets_at:%Y-%m-%dT%H:%M:%SZ}.",
        fix="Raise the key's monthly cap, lower max_tokens, or wait for the reset.",
    )


def billing_unavailable() -> BillingUnavailable:
    """Return the refusal for a database that does not answer."""
    return BillingUnavailable(
        "Credit cannot be checked right now, so nothing was started and nothing is charged.", fix="Retry shortly."
    )


def amount(nano: int) -> str:
    """Return an amount as people write it."""
    return f"{decimal_text(nano)} {settings.CURRENCY.upper()}"
