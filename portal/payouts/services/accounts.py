"""A provider's way to be paid by Stripe: open the account, lead to Stripe's form, and read back what came of it."""

from dataclasses import asdict
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.rules.related import FactKind
from portal.billing.services import related
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_types import Account, AccountOrder
from portal.payouts import locks
from portal.payouts.errors import (
    AccountGone,
    CountryNotPayable,
    HouseIsNotPaid,
    PayoutOpenToAccount,
)
from portal.payouts.models import OPEN_STATES, AccountState, ChangeKind, Payout, PayoutAccount, Rail
from portal.payouts.rules import accounts as rules
from portal.payouts.rules import protection
from portal.payouts.selectors.destinations import verified_bank_account
from portal.payouts.services import account_alerts, destinations, identity
from portal.payouts.services.destinations import Change
from portal.providers.models import Provider, ProviderKind

_MISSING = frozenset({"resource_missing", "account_invalid", "not_found"})


def start_onboarding(
    *,
    provider: Provider,
    return_url: str,
    refresh_url: str,
    actor: Actor,
    now: datetime,
    confirmed_at: datetime | None = None,
) -> str:
    """Return the URL of Stripe's form; the account's id is kept before the link is made.

    The form of an account that once worked can change its bank, and another account than the first takes its place:
    both need a second factor used at `confirmed_at`. Raises CountryNotPayable, HouseIsNotPaid, AccountGone,
    SecondFactorNeeded, and what Payments raises.
    """
    require_payable(provider=provider)
    row = _row(provider, now)
    if row.state in rules.UNLINKABLE:
        raise AccountGone(rules.fix(row.state, row.state_code), fix="unlink the account, then start again")
    if needs_confirmation(row=row):
        protection.require_recent(confirmed_at, now=now)
    account = row.stripe_account or _open(row, actor, now)
    with transaction.atomic():
        PayoutAccount.objects.filter(pk=row.pk).update(links=F("links") + 1)
        link = PayoutAccount.objects.values_list("links", flat=True).get(pk=row.pk)
    return stripe.payments().create_onboarding_link(
        key=f"onboarding:{account}:{link}", account=account, return_url=return_url, refresh_url=refresh_url
    )


def require_payable(*, provider: Provider) -> None:
    """Refuse whom this pool cannot pay, before details are given. Raises CountryNotPayable, HouseIsNotPaid."""
    if provider.kind == ProviderKind.HOUSE:
        raise HouseIsNotPaid("house nodes have no payout")
    if settings.PAYOUT_COUNTRIES and provider.country not in settings.PAYOUT_COUNTRIES:
        raise CountryNotPayable(
            f"this pool does not pay providers in {provider.country}",
            param="country",
            fix=f"countries that are paid: {', '.join(settings.PAYOUT_COUNTRIES)}",
        )


def needs_confirmation(*, row: PayoutAccount | None) -> bool:
    """Tell whether Stripe's form could change where the money goes, or leads to another account than the first."""
    return row is not None and (row.first_active_at is not None or row.generation > 1)


def _row(provider: Provider, now: datetime) -> PayoutAccount:
    order = AccountOrder(
        provider=provider.public_id,
        display_name=provider.legal_name,
        contact_email=provider.contact_email,
        country=provider.country,
    )
    row, _ = PayoutAccount.objects.get_or_create(
        provider=provider, defaults={"order": asdict(order), "created_at": now}
    )
    if not row.order:
        PayoutAccount.objects.filter(pk=row.pk, order={}).update(order=asdict(order))
        row.refresh_from_db()
    return row


def _open(row: PayoutAccount, actor: Actor, now: datetime) -> str:
    """Create the account with the frozen order, and keep its id."""
    key = f"account:{row.provider.public_id}:{row.generation}"
    made = stripe.payments().create_account(key=key, order=AccountOrder(**row.order))
    with transaction.atomic():
        locked = locks.payout_account(row.provider_id)
        if locked.stripe_account is None:
            locked.stripe_account = made.id
            locked.save(update_fields=["stripe_account"])
            change = Change(ChangeKind.STRIPE_OPENED, after=made.id)
            holds = locked.generation > 1 or verified_bank_account(provider=locked.provider) is not None
            destinations.record(provider=locked.provider, change=change, holds=holds, actor=actor, now=now)
            _apply(locked, made, now)
            _record(locked, "payout_account.opened", actor=actor, now=now)
    return locked.stripe_account or made.id


def refresh(*, provider_id: str, now: datetime) -> PayoutAccount:
    """Read the account at Stripe and keep what it can do now. Raises NotFound and what Payments raises."""
    row = PayoutAccount.objects.filter(provider__public_id=provider_id).select_related("provider").first()
    if row is None or row.stripe_account is None:
        raise AccountGone("the provider has not started with Stripe", fix="start the onboarding")
    seen = _read(row.stripe_account)
    with transaction.atomic():
        locked = locks.payout_account(row.provider_id)
        if locked.stripe_account == row.stripe_account:
            _apply(locked, seen, now)
    return locked


def _read(account: str) -> Account | None:
    try:
        return stripe.payments().account(account=account)
    except PaymentRejected as error:
        if error.stripe_code in _MISSING:
            return None
        raise


def _apply(row: PayoutAccount, seen: Account | None, now: datetime) -> None:
    """Write the state that follows from what Stripe says, and what it means for the provider's identity."""
    before = row.state
    if seen is None or seen.is_live != stripe.is_live_mode():
        row.state, row.state_code, row.requirements, row.due_at = AccountState.CLOSED, "account_missing", [], None
    else:
        _copy(row, seen, now)
    if rules.is_payable(row.state) and row.first_active_at is None:
        row.first_active_at = now
    row.fetched_at = now
    row.save()
    bank = row.bank_fingerprint
    related.note(organization=row.provider.organization, kind=FactKind.BANK, value=bank, source="payouts", now=now)
    identity.settle(provider=row.provider, now=now)
    if row.state != before:
        _record(row, "payout_account.changed", actor=SYSTEM_ACTOR, now=now, before=before)
    account_alerts.tell(row=row, is_change=row.state != before, now=now)


def _copy(row: PayoutAccount, seen: Account, now: datetime) -> None:
    row.state, row.state_code = rules.state_of(seen, was_active=row.first_active_at is not None)
    row.requirements = [asdict(entry) for entry in seen.requirements]
    row.due_at, row.bank_payouts_status = seen.due_at, seen.bank_payouts_status
    is_accepted = row.first_active_at is not None or row.generation == 1
    if rules.currency_differs(before=row.currency, after=seen.currency) and not is_accepted:
        row.state, row.state_code = AccountState.UNSUPPORTED, rules.CURRENCY_DIFFERS
    elif seen.currency:
        row.currency = seen.currency
    if seen.bank_fingerprint and seen.bank_fingerprint != row.bank_fingerprint:
        if row.bank_fingerprint:
            change = Change(ChangeKind.STRIPE_BANK, before=row.stripe_account or "", after=row.stripe_account or "")
            destinations.record(provider=row.provider, change=change, holds=True, actor=SYSTEM_ACTOR, now=now)
        row.bank_fingerprint = seen.bank_fingerprint


def unlink(*, provider: Provider, confirmed_at: datetime | None, actor: Actor, now: datetime) -> PayoutAccount:
    """Forget the account, so that the provider can start again with another one; payouts rest for a while.

    Raises SecondFactorNeeded, AccountGone, PayoutOpenToAccount.
    """
    protection.require_recent(confirmed_at, now=now)
    with transaction.atomic():
        row = locks.payout_account(provider.pk)
        before = row.stripe_account
        if before is None:
            raise AccountGone("no account is linked", fix="start the onboarding")
        _require_no_payout_to(row)
        row.stripe_account, row.order, row.generation = None, {}, row.generation + 1
        row.state, row.state_code, row.requirements = AccountState.NOT_STARTED, "", []
        row.first_active_at, row.due_at, row.bank_payouts_status, row.bank_fingerprint = None, None, "", ""
        row.save()
        change = Change(ChangeKind.STRIPE_UNLINKED, before=before)
        destinations.record(provider=row.provider, change=change, holds=True, actor=actor, now=now)
        identity.settle(provider=row.provider, now=now)
        _record(row, "payout_account.unlinked", actor=actor, now=now, before=before)
    return row


def _require_no_payout_to(row: PayoutAccount) -> None:
    found = Payout.objects.filter(
        provider=row.provider, rail=Rail.STRIPE, destination=row.stripe_account, state__in=OPEN_STATES
    ).first()
    if found is not None:
        raise PayoutOpenToAccount(
            f"{found.public_id} is {found.get_state_display().lower()} and goes to this account: "
            "nobody could tell any more whether it arrived",
            fix="wait until it has ended, or ask the operator to cancel it",
        )


def dashboard_link(*, provider: Provider, confirmed_at: datetime | None, now: datetime) -> str:
    """Return a single-use way into the provider's dashboard at Stripe, where its bank account can be changed.

    Raises SecondFactorNeeded, AccountGone, and what Payments raises.
    """
    protection.require_recent(confirmed_at, now=now)
    row = PayoutAccount.objects.filter(provider=provider).first()
    if row is None or row.stripe_account is None:
        raise AccountGone("no account is linked", fix="start the onboarding")
    return stripe.payments().login_link(account=row.stripe_account)


def accept_currency(*, provider: Provider, actor: Actor, now: datetime) -> PayoutAccount:
    """Let the provider be paid in another currency than before, as an operator decides. Raises NotFound."""
    with transaction.atomic():
        row = locks.payout_account(provider.pk)
        before, row.currency = row.currency, ""
        row.save(update_fields=["currency"])
        _record(row, "payout_account.currency_accepted", actor=actor, now=now, before=before)
    return row


def _record(row: PayoutAccount, event: str, *, actor: Actor, now: datetime, before: str = "") -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.provider.public_id,
        now=now,
        organization=row.provider.organization.public_id,
        detail={"account": row.stripe_account or "", "state": row.state, "code": row.state_code, "before": before},
    )
