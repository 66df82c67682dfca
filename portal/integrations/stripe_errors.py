"""What a call to Stripe can end in, by what it means for the money: refused, short of funds, later, or not known."""

from typing import ClassVar

from portal.core.errors import DomainError


class PaymentError(DomainError):
    """A call to Stripe did not succeed; `stripe_code` is Stripe's own word for it."""

    code: ClassVar[str] = "payment_error"

    def __init__(
        self, message: str, *, stripe_code: str = "", param: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message, param=param, fix=fix)
        self.stripe_code = stripe_code


class PaymentsNotConfigured(PaymentError):
    """This deployment has no usable Stripe settings."""

    code = "payments_not_configured"


class PaymentRejected(PaymentError):
    """Stripe refused for good: nothing was done, and the same key would answer the same for a day."""

    code = "payment_rejected"


class CardDeclined(PaymentRejected):
    """The card was refused; `stripe_code` may be `authentication_required`. `payment` names the failed payment."""

    code = "card_declined"

    def __init__(self, message: str, *, stripe_code: str, decline_code: str = "", payment: str = "") -> None:
        super().__init__(message, stripe_code=stripe_code)
        self.decline_code = decline_code
        self.payment = payment

    @property
    def needs_owner(self) -> bool:
        """Tell whether the card's owner has to confirm the payment on a page."""
        return self.stripe_code == "authentication_required"


class PermissionMissing(PaymentRejected):
    """The restricted key may not do this; the message names the permission that would allow it."""

    code = "stripe_permission_missing"


class AccountsApiBlocked(PaymentRejected):
    """Stripe keeps this platform on its other account API; the fix names the setting."""

    code = "stripe_accounts_api_blocked"


class InsufficientFunds(PaymentRejected):
    """The platform's available balance at Stripe does not cover the transfer."""

    code = "stripe_balance_insufficient"


class PaymentRateLimited(PaymentError):
    """Stripe did not begin: ask again later with the same key."""

    code = "payment_rate_limited"


class PaymentOutcomeUnknown(PaymentError):
    """Nobody knows whether Stripe did it: time-out, lost connection, 5xx, or a key already in use."""

    code = "payment_outcome_unknown"


class SignatureInvalid(PaymentError):
    """A webhook's signature does not match its secret, or is too old."""

    code = "signature_invalid"
