"""A provider's way to be paid: open the account, lead to Stripe's form, and read back what came of it."""

from dataclasses import asdict
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_types import Account, AccountOrder
from portal.payouts import locks
from portal.payouts.errors import AccountGone, AccountInUse, CountryNotPayable, HouseIsNotPaid
from portal.payouts.models import AccountState, PayoutAccount
from portal.payouts.rules import accounts as rules
from portal.providers.models import Provider, ProviderKind
from portal.providers.services import review

_MISSING = frozenset({"resource_missing", "account_invalid", "not_found"})


def start_onboarding(*, provider: Provider, return_url: str, refresh_url: str, actor: Actor, now: datetime) -> str:
    """Return the URL of Stripe's form; the account's id is kept before the link is made.

    Raises CountryNotPayable, HouseIsNotPaid, AccountGone, and what Payments raises.
    """
    _require_payable(provider)
    row = _row(provider, now)
    if row.state in rules.UNLINKABLE:
        raise AccountGone(rules.FIXES[row.state], fix="unlink the account, then start again")
    account = row.stripe_account or _open(row, actor, now)
    with transaction.atomic():
        PayoutAccount.objects.filter(pk=row.pk).update(links=F("links") + 1)
        link = PayoutAccount.objects.values_list("links", flat=True).get(pk=row.pk)
    return stripe.payments().create_onboarding_link(
        key=f"onboarding:{account}:{link}", account=account, return_url=return_url, refresh_url=refresh_url
    )


def _require_payable(provider: Provider) -> None:
    if provider.kind == ProviderKind.HOUSE:
        raise HouseIsNotPaid("house nodes have no payout")
    if settings.PAYOUT_COUNTRIES and provider.country not in settings.PAYOUT_COUNTRIES:
        raise CountryNotPayable(
            f"this pool does not pay providers in {provider.country}",
            param="country",
            fix=f"countries that are paid: {', '.join(settings.PAYOUT_COUNTRIES)}",
        )


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
        row.state, row.state_code, row.requirements = AccountState.CLOSED, "account_missing", []
    else:
        row.state, row.state_code = rules.state_of(seen, was_active=row.first_active_at is not None)
        row.requirements = [asdict(entry) for entry in seen.requirements]
        row.due_at, row.bank_payouts_status = seen.due_at, seen.bank_payouts_status
    if rules.is_payable(row.state) and row.first_active_at is None:
        row.first_active_at = now
    row.fetched_at = now
    row.save()
    review.set_identity(
        provider_id=row.provider.public_id, is_identified=rules.is_payable(row.state), actor=SYSTEM_ACTOR, now=now
    )
    if row.state != before:
        _record(row, "payout_account.changed", actor=SYSTEM_ACTOR, now=now, before=before)


def unlink(*, provider: Provider, actor: Actor, now: datetime) -> PayoutAccount:
    """Forget an account that is closed or unsupported, so that the provider can start again. Raises AccountInUse."""
    with transaction.atomic():
        row = locks.payout_account(provider.pk)
        if row.state not in rules.UNLINKABLE:
            raise AccountInUse("only a closed or unsupported account is unlinked")
        before = row.stripe_account or ""
        row.stripe_account, row.order, row.generation = None, {}, row.generation + 1
        row.state, row.state_code, row.requirements = AccountState.NOT_STARTED, "", []
        row.first_active_at, row.due_at, row.bank_payouts_status = None, None, ""
        row.save()
        _record(row, "payout_account.unlinked", actor=actor, now=now, before=before)
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
