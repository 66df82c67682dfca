"""Translates the SDK's errors into what they mean for the money."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import stripe

from portal.integrations.stripe_errors import (
    CardDeclined,
    InsufficientFunds,
    PaymentOutcomeUnknown,
    PaymentRateLimited,
    PaymentRejected,
    PermissionMissing,
)

_REFUSED = range(HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR)


@contextmanager
def outcome() -> Iterator[None]:
    """Run one call. Raises PaymentRejected, PaymentRateLimited or PaymentOutcomeUnknown for the SDK's errors."""
    try:
        yield
    except stripe.RateLimitError as error:
        raise PaymentRateLimited(_message(error), stripe_code=error.code or "rate_limit") from error
    except (stripe.APIConnectionError, stripe.IdempotencyError) as error:
        raise PaymentOutcomeUnknown(_message(error), stripe_code=error.code or type(error).__name__) from error
    except stripe.StripeError as error:
        raise _refusal(error) from error


def _refusal(error: stripe.StripeError) -> PaymentRejected | PaymentOutcomeUnknown:
    status, code = error.http_status or 0, _code(error)
    param = getattr(error, "param", None)
    if isinstance(error, stripe.CardError):
        return _declined(error, code)
    if isinstance(error, stripe.PermissionError) and code != "account_invalid":
        return PermissionMissing(_message(error), stripe_code=code, fix="give the key this permission at Stripe")
    if code == "balance_insufficient":
        return InsufficientFunds(_message(error), stripe_code=code, param=param)
    if status in _REFUSED and status != HTTPStatus.CONFLICT:
        return PaymentRejected(_message(error), stripe_code=code, param=param)
    return PaymentOutcomeUnknown(_message(error), stripe_code=code)


def _declined(error: stripe.CardError, code: str) -> CardDeclined:
    intent = _details(error).get("payment_intent")
    return CardDeclined(
        _message(error),
        stripe_code=code,
        decline_code=str(_details(error).get("decline_code") or ""),
        payment=str(intent.get("id") or "") if isinstance(intent, dict) else "",
    )


def _details(error: stripe.StripeError) -> dict[str, object]:
    body = error.json_body if isinstance(error.json_body, dict) else {}
    details = body.get("error")
    return details if isinstance(details, dict) else {}


def _code(error: stripe.StripeError) -> str:
    details = _details(error)
    return str(error.code or details.get("code") or details.get("type") or type(error).__name__)


def _message(error: stripe.StripeError) -> str:
    return (error.user_message or type(error).__name__)[:400]


class StripeCalls:
    """What every part of the door stands on: the SDK's client, v1 and v2."""

    def __init__(self, client: stripe.StripeClient) -> None:
        self._v1 = client.v1
        self._v2 = client.v2
