"""Providers' accounts by Stripe's older API, for platforms that Stripe has kept on it (STRIPE_ACCOUNTS_API=v1)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.conf import settings

from portal.integrations.stripe_errors import AccountsApiBlocked, PaymentRejected
from portal.integrations.stripe_fields import Body, at, is_true, names, seconds_or_none, text
from portal.integrations.stripe_outcome import outcome
from portal.integrations.stripe_types import Account, AccountOrder, Requirement

if TYPE_CHECKING:
    from stripe._v1_services import V1Services

_V2_BLOCKED = "accounts_v2_access_blocked"
_PENDING = "requirements.pending_verification"
_DUE = ("past_due", "currently_due", "eventually_due")


@contextmanager
def accounts_api(version: str) -> Iterator[None]:
    """Run one call about accounts. Raises AccountsApiBlocked where this platform is on Stripe's other API."""
    try:
        with outcome():
            yield
    except PaymentRejected as error:
        is_v2_blocked = version == "v2" and error.stripe_code == _V2_BLOCKED
        is_v1_blocked = version == "v1" and _points_to_v2(error)
        if not (is_v2_blocked or is_v1_blocked):
            raise
        other = "v1" if is_v2_blocked else "v2"
        raise AccountsApiBlocked(
            f"Stripe does not let this platform use Accounts {version}",
            stripe_code=error.stripe_code,
            fix=f"set STRIPE_ACCOUNTS_API={other} and restart portal and worker",
        ) from error


def _points_to_v2(error: PaymentRejected) -> bool:
    words = error.message.lower()
    return "accounts_v1" in error.stripe_code or "accounts v2" in words or "/v2/core/accounts" in words


def create(v1: "V1Services", *, key: str, order: AccountOrder) -> Account:
    """Create an account that only receives transfers; the platform carries fees and losses."""
    with accounts_api("v1"):
        made = v1.accounts.create(
            {
                "country": order.country,
                "email": order.contact_email,
                "controller": {
                    "stripe_dashboard": {"type": "express"},
                    "fees": {"payer": "application"},
                    "losses": {"payments": "application"},
                    "requirement_collection": "stripe",
                },
                "capabilities": {"transfers": {"requested": True}},
                "business_profile": {"name": order.display_name},
                "metadata": {"provider_id": order.provider},
            },
            {"idempotency_key": key},
        )
    return read(made.to_dict(), is_live=_is_live())


def retrieve(v1: "V1Services", *, account: str, bank_fingerprint: str) -> Account:
    """Return the account."""
    with accounts_api("v1"):
        found = v1.accounts.retrieve(account)
    return read(found.to_dict(), is_live=_is_live(), bank_fingerprint=bank_fingerprint)


def onboarding_link(v1: "V1Services", *, key: str, account: str, return_url: str, refresh_url: str) -> str:
    """Return the URL of a single-use hosted onboarding page."""
    with accounts_api("v1"):
        link = v1.account_links.create(
            {
                "account": account,
                "type": "account_onboarding",
                "return_url": return_url,
                "refresh_url": refresh_url,
            },
            {"idempotency_key": key},
        )
    return link.url


def read(body: Body, *, is_live: bool, bank_fingerprint: str = "") -> Account:
    """Read a v1 account; it carries no mode of its own, so the key's is taken."""
    reason = text(body, "requirements", "disabled_reason")
    return Account(
        id=text(body, "id"),
        is_closed=is_true(body, "deleted"),
        is_live=is_live,
        country=text(body, "country").upper(),
        transfers_status=_transfers_status(text(body, "capabilities", "transfers"), reason),
        transfers_code="" if text(body, "capabilities", "transfers") == "active" else reason.replace(".", "_"),
        transfers_resolution="",
        bank_payouts_status="active" if is_true(body, "payouts_enabled") else "restricted",
        requirements=_requirements(at(body, "requirements")),
        due_at=seconds_or_none(body, "requirements", "current_deadline"),
        currency=text(body, "default_currency"),
        bank_fingerprint=bank_fingerprint,
    )


def _is_live() -> bool:
    return str(settings.STRIPE_API_KEY).startswith(("sk_live_", "rk_live_"))


def _transfers_status(capability: str, reason: str) -> str:
    if capability in {"active", "pending"}:
        return capability
    if reason == _PENDING:
        return "pending"
    return "unsupported" if reason.startswith("rejected.") else "restricted"


def _requirements(body: object) -> tuple[Requirement, ...]:
    """Return each thing that is asked for once, by its nearest deadline."""
    found: dict[str, Requirement] = {}
    for status in _DUE:
        for name in names(body, status):
            found.setdefault(name, Requirement(description=name, awaiting="user", deadline_status=status))
    waiting: Sequence[str] = names(body, "pending_verification")
    for name in waiting:
        found.setdefault(name, Requirement(description=name, awaiting="stripe", deadline_status="currently_due"))
    return tuple(found.values())
