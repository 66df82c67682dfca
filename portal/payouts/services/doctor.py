"""Checks what must be right at Stripe before the first provider is paid: each finding with its fix."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import F, Sum

from portal.billing.models import LedgerAccount, StripeMovement
from portal.billing.rules.accounts import Kind
from portal.billing.services import freeze
from portal.core import money
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError
from portal.integrations.stripe_types import Payments, Platform
from portal.payouts.rules import credit_notes
from portal.payouts.services import books

_OWED = [
    Kind.PROVIDER_PENDING,
    Kind.PROVIDER_AVAILABLE,
    Kind.PROVIDER_HELD,
    Kind.PROVIDER_RESERVE,
    Kind.PAYOUT_CLEARING,
    Kind.CUSTOMER_CREDIT,
]
_SHOWN = 5
_EEA = "AT BE BG HR CY CZ DK EE FI FR DE GR HU IS IE IT LV LI LT LU MT NL NO PL PT RO SK SI ES SE"
_CROSS_BORDER = frozenset(_EEA.split()) | {"US", "GB", "CA", "CH"}
_SECRETS = {
    "STRIPE_WEBHOOK_SECRET": "/webhooks/stripe/",
    "STRIPE_CONNECT_WEBHOOK_SECRET": "/webhooks/stripe/connect/",
    "STRIPE_EVENTS_SECRET": "/webhooks/stripe/events/",
}
_AGAIN = "run this again in a minute"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check; `status` is ok, warn or fail."""

    id: str
    status: str
    detail: str
    fix: str = ""
    cause: str = ""


def examine(*, now: datetime) -> list[Finding]:
    """Run every check that can be run; without a usable key the rest is left out."""
    findings = [*_settings()]
    try:
        door = stripe.payments()
        platform = door.platform()
    except PaymentError as error:
        fix = error.fix or "check STRIPE_API_KEY, its permissions and the network"
        return [*findings, Finding("api", "fail", f"{error.stripe_code or error.code}: {error.message}", fix)]
    findings += [Finding("api", "ok", f"speaks for {platform.id}"), *_platform(platform)]
    findings += _asked("balance", lambda: _balance(door))
    findings.append(_accounts(door))
    return findings + _asked("books", lambda: _books(now))


def _asked(name: str, ask: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return what a check found, or that Stripe would not tell: the checks after it are run all the same."""
    try:
        return list(ask())
    except PaymentError as error:
        detail = f"Stripe did not tell: {error.stripe_code or error.code}"
        return [Finding(name, "fail", detail, error.fix or _AGAIN, cause=error.message)]


def _shown(minor: int) -> str:
    return f"{credit_notes.amount(minor, money.exponent(settings.CURRENCY))} {settings.CURRENCY.upper()}"


def _books(now: datetime) -> Iterator[Finding]:
    """Our books and Stripe's must agree; a difference that stays is money that nobody has booked."""
    seen = books.compare(now=now)
    detail = f"the ledger has {_shown(seen.ours_minor)} at Stripe, Stripe itself {_shown(seen.theirs_minor)}"
    if not seen.difference_minor:
        yield Finding("books", "ok", detail)
        return
    kinds = ", ".join(sorted({f"{one.type} {one.source or one.id}" for one in seen.unbooked})[:_SHOWN])
    fix = f"book what is missing: {kinds}" if kinds else f"{_AGAIN}: a purchase may be under way"
    yield Finding("books", "warn", detail, fix)


def _settings() -> Iterator[Finding]:
    for name, path in _SECRETS.items():
        is_set = bool(getattr(settings, name))
        fix = (
            ""
            if is_set
            else f"make the endpoint {settings.PUBLIC_URL}{path} at Stripe, set {name} to its signing secret"
        )
        yield Finding(name.lower(), "ok" if is_set else "fail", "set" if is_set else "not set", fix)
    secrets = [getattr(settings, name) for name in _SECRETS if getattr(settings, name)]
    if len(set(secrets)) < len(secrets):
        yield Finding("webhook_secrets", "fail", "two endpoints share one secret", "use each endpoint's own secret")
    if settings.STRIPE_API_KEY:
        mode = "live: real money" if stripe.is_live_mode() else "test mode: no money moves"
        yield Finding("mode", "ok", mode)
    yield Finding("api_version", "ok", f"{stripe.API_VERSION}, fixed in every call")
    if settings.STRIPE_API_KEY.startswith("sk_live_"):
        fix = "make a restricted key (rk_live_…) with the permissions that docs/stripe.md lists"
        cause = "whoever gets hold of this key can do everything with the account"
        yield Finding("restricted_key", "warn", "a secret key may do everything", fix, cause)


def _platform(platform: Platform) -> Iterator[Finding]:
    if not platform.charges_enabled:
        yield Finding("charges", "fail", "the account may not charge cards", "finish the account's setup at Stripe")
    if platform.default_currency and platform.default_currency != settings.CURRENCY:
        detail = f"Stripe settles in {platform.default_currency}, this pool runs in {settings.CURRENCY}"
        yield Finding("currency", "warn", detail, "set CURRENCY to the settlement currency")
    if not platform.payouts_enabled:
        fix, cause = "finish the account's setup at Stripe", "Stripe holds payouts until it knows who you are"
        yield Finding("payouts", "warn", "Stripe pays nothing out to your own bank", fix, cause)
    yield from _countries(platform)
    yield _retained(platform)


def _countries(platform: Platform) -> Iterator[Finding]:
    """Transfers cross borders only within one group of regions; elsewhere both ends must be in one country."""
    if not platform.country or not settings.PAYOUT_COUNTRIES:
        return
    reachable = _CROSS_BORDER if platform.country in _CROSS_BORDER else frozenset({platform.country})
    beyond = sorted(set(settings.PAYOUT_COUNTRIES) - reachable)
    if beyond:
        cause = f"a platform in {platform.country} cannot make transfers there by itself"
        fix = "take them out of PAYOUT_COUNTRIES, or pay them by bank transfer"
        yield Finding("countries", "warn", f"PAYOUT_COUNTRIES names {', '.join(beyond[:_SHOWN])}", fix, cause)
    else:
        yield Finding("countries", "ok", f"{len(settings.PAYOUT_COUNTRIES)} countries, all within reach")


def _retained(platform: Platform) -> Finding:
    """Automatic payouts must leave behind what providers and customers are owed."""
    owed = _owed_minor()
    kept = platform.minimum_balance_minor.get(settings.CURRENCY, 0)
    if platform.payout_interval == "manual" or kept >= owed:
        left = "are manual" if platform.payout_interval == "manual" else f"leave {_shown(kept)} behind"
        detail = f"{_shown(owed)} owed to providers and customers; Stripe's payouts to your own bank {left}"
        return Finding("retained_balance", "ok", detail)
    detail = (
        f"Stripe's automatic payouts to your own bank leave {_shown(kept)} behind,"
        f" {_shown(owed)} are owed to providers and customers"
    )
    fix = "raise the minimum balance at Stripe, or make the platform's payouts manual"
    return Finding("retained_balance", "warn", detail, fix)


def _owed_minor() -> int:
    rows = LedgerAccount.objects.filter(kind__in=_OWED, currency=settings.CURRENCY)
    nano = rows.aggregate(sum=Sum(F("credits") - F("debits"), default=0))["sum"]
    minor, _ = money.minor_from_nano(max(int(nano), 0), settings.CURRENCY)
    return minor


def _balance(door: Payments) -> Iterator[Finding]:
    found = door.balances()
    foreign = [one.currency for one in found if one.currency != settings.CURRENCY and one.available_minor]
    if foreign:
        detail = f"money in {', '.join(foreign)} cannot be paid out by this pool"
        yield Finding("balance_currency", "warn", detail, "convert it at Stripe")
    ours = next((one for one in found if one.currency == settings.CURRENCY), None)
    if ours is not None:
        status = "ok" if ours.available_minor >= 0 else "fail"
        detail = f"{_shown(ours.available_minor)} available at Stripe, {_shown(ours.pending_minor)} pending"
        yield Finding("balance", status, detail, "" if status == "ok" else "top up the platform's balance")


_KNOWN_CAUSES = {
    "platform_registration_required": "Connect is not switched on, or the platform profile is not finished",
    "account_creation_liability_unacknowledged": "who bears the losses of providers' accounts is not acknowledged",
    "accounts_v2_access_blocked": "Stripe keeps this platform on its older account API",
}
_ACCOUNTS_FIX = "open Connect in Stripe's dashboard, finish the platform profile and acknowledge the losses"


def _accounts(door: Payments) -> Finding:
    """Ask for an account that does not exist: a platform that is ready answers that, any other says what is missing."""
    name = f"accounts_{settings.STRIPE_ACCOUNTS_API}"
    try:
        door.account(account="acct_poolhouse_doctor")
    except PaymentError as error:
        if error.stripe_code not in {"resource_missing", "not_found", "account_invalid"}:
            cause = _KNOWN_CAUSES.get(error.stripe_code, error.message)
            fix = error.fix or _ACCOUNTS_FIX
            return Finding(name, "fail", f"providers cannot be taken in: {error.stripe_code}", fix, cause)
    return Finding(name, "ok", "providers' accounts can be read; transfers-only approval shows at the first provider")


def recovery_findings() -> Iterator[Finding]:
    """Yield what is left of a recovery: payments that rest, and objects at Stripe that nothing here explains."""
    if freeze.is_frozen():
        yield Finding("recovery", "fail", "payouts, refunds and automatic purchases rest", freeze.FIX)
    left = freeze.unexplained()
    if left:
        names = ", ".join(one.stripe_id for one in left[:_SHOWN])
        fix = "give the money back at Stripe or book it by hand, then `manage.py recover --release ID --reason …`"
        yield Finding("recovery_unexplained", "warn", f"{len(left)} objects stay set aside: {names}", fix)


def unmatched_findings() -> Iterator[Finding]:
    """Yield that lines of Stripe's own books belong to nothing here."""
    rows = StripeMovement.objects.filter(source_id="").exclude(net_minor=0).order_by("moved_at", "id")
    count = rows.count()
    if count:
        names = ", ".join(f"{one.type} {one.stripe_id}" for one in rows[:_SHOWN])
        fix = "say what each is on the operator's page of Stripe's books"
        yield Finding("unmatched", "warn", f"{count} lines of Stripe's books are unexplained: {names}", fix)
    else:
        yield Finding("unmatched", "ok", "every line of Stripe's books that was read is explained")
