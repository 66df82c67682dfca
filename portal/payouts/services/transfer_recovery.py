"""Takes transfers over that a restored backup does not know as sent, so that nobody is paid for the same twice."""

from datetime import datetime, timedelta

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks as billing_locks
from portal.billing.models import FoundObject
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import found_objects, ledger
from portal.billing.services.ledger import Transfer as Posting
from portal.core import money
from portal.integrations import stripe
from portal.integrations.stripe_types import Transfer
from portal.payouts import locks
from portal.payouts.models import OPEN_STATES, Payout, PayoutAccount, PayoutState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import moves
from portal.providers.models import Provider

_TICK = timedelta(microseconds=1)
_WHY = "Stripe has made the transfer; a recovery found it"
# How an open payout gets to where Stripe says it is, one allowed move after the other.
_WAYS: dict[str, tuple[str, ...]] = {
    PayoutState.HELD: (PayoutState.RESERVED, PayoutState.APPROVED, PayoutState.SENDING),
    PayoutState.RESERVED: (PayoutState.APPROVED, PayoutState.SENDING),
    PayoutState.APPROVED: (PayoutState.SENDING,),
    PayoutState.WAITING_FUNDS: (PayoutState.SENDING,),
    PayoutState.SENDING: (),
    PayoutState.UNKNOWN: (),
    PayoutState.NEEDS_REVIEW: (),
}


def provider_of(seen: Transfer) -> str:
    """Return the public id of the provider that was paid; empty where nothing here says who that is."""
    if seen.provider:
        return seen.provider
    row = PayoutAccount.objects.select_related("provider").filter(stripe_account=seen.destination).first()
    return row.provider.public_id if row else ""


def is_set_aside(seen: Transfer) -> bool:
    """Tell whether the books have set the transfer's money aside already, for a payout that is open here."""
    return Payout.objects.filter(public_id=seen.reference, state__in=OPEN_STATES).exists()


def take_over(*, row: FoundObject, seen: Transfer, actor: Actor, now: datetime) -> str:
    """Book the transfer as the payout it was, and release what was set aside for it; return what hinders that."""
    provider = Provider.objects.select_related("organization").filter(public_id=provider_of(seen)).first()
    if provider is None:
        return "no provider of this pool was paid"
    if not seen.reference:
        return "it names no payout of this pool"
    with transaction.atomic():
        found = Payout.objects.filter(public_id=seen.reference).first()
        if found is None:
            found_objects.imported(row=row, actor=actor, now=now)
            _remember_account(provider, seen, now)
            _write(provider, seen, actor, now)
            return ""
        payout = locks.payout(found.pk)
        problem = _difference(payout, provider, seen)
        if not problem:
            found_objects.imported(row=row, actor=actor, now=now)
            _advance(payout, seen, actor, now)
    return problem


def _difference(payout: Payout, provider: Provider, seen: Transfer) -> str:
    if payout.stripe_transfer == seen.id:
        return ""
    if payout.state not in _WAYS:
        return f"{payout.public_id} is {payout.state} here"
    pairs = [
        ("provider", payout.provider_id, provider.pk),
        ("amount", payout.amount_minor, seen.amount_minor),
        ("currency", payout.currency, seen.currency),
        ("destination", payout.destination, seen.destination),
        ("livemode", stripe.is_live_mode(), seen.is_live),
    ]
    return next((f"{name}: {theirs} instead of {ours}" for name, ours, theirs in pairs if ours != theirs), "")


def _advance(payout: Payout, seen: Transfer, actor: Actor, now: datetime) -> None:
    """Move an open payout to where Stripe says it is."""
    if payout.stripe_transfer == seen.id:
        return
    for state in _WAYS[payout.state]:
        moves.move(payout, state, reason=_WHY, actor=actor, now=now)
    payout.stripe_transfer, payout.sent_at = seen.id, seen.created_at
    moves.post_sent(payout, actor=actor, now=now)
    moves.move(payout, PayoutState.TRANSFERRED, reason=_WHY, actor=actor, now=now)
    attempt = selectors.attempt_of(payout)
    attempt.result, attempt.finished_at = "transferred", now
    attempt.first_sent_at = attempt.first_sent_at or seen.created_at
    attempt.save(update_fields=["result", "finished_at", "first_sent_at"])


def _write(provider: Provider, seen: Transfer, actor: Actor, now: datetime) -> Payout:
    """Write the payout under the id that it had, with the money that is there; what is not there is owed."""
    payout = Payout.objects.create(
        public_id=seen.reference,
        provider=provider,
        currency=seen.currency,
        period_start=provider.created_at,
        period_end=_period_end(provider, seen),
        amount_minor=seen.amount_minor,
        destination=seen.destination,
        state=PayoutState.TRANSFERRED,
        state_reason=_WHY,
        stripe_transfer=seen.id,
        created_at=seen.created_at,
        changed_at=now,
        sent_at=seen.created_at,
    )
    attempt = moves.add_attempt(payout, number=1, now=now)
    attempt.result, attempt.first_sent_at, attempt.finished_at = "transferred", seen.created_at, now
    attempt.save(update_fields=["result", "first_sent_at", "finished_at"])
    _post_reserved(payout, actor, now)
    moves.post_sent(payout, actor=actor, now=now)
    audit.record(
        actor=actor,
        event="payout.recovered",
        subject=payout.public_id,
        now=now,
        organization=provider.organization.public_id,
        detail={"transfer": seen.id, "amount_minor": seen.amount_minor, "currency": seen.currency},
    )
    return payout


def _period_end(provider: Provider, seen: Transfer) -> datetime:
    """Return a moment at the transfer's time that no other payout of the provider ends at."""
    moment = max(seen.created_at, provider.created_at + _TICK)
    while Payout.objects.filter(provider=provider, currency=seen.currency, period_end=moment).exists():
        moment += _TICK
    return moment


def _post_reserved(payout: Payout, actor: Actor, now: datetime) -> None:
    owner, currency = payout.provider.public_id, payout.currency
    wanted = [(Kind.PROVIDER_AVAILABLE, owner), (Kind.PROVIDER_RECEIVABLE, owner), (Kind.PAYOUT_CLEARING, owner)]
    rows = ledger.accounts([(str(kind), name) for kind, name in wanted], currency=currency)
    available, debt, clearing = (rows[f"{kind}:{name}"] for kind, name in wanted)
    locked = billing_locks.accounts(row.pk for row in rows.values())
    amount = int(money.nano_from_minor(payout.amount_minor, currency))
    there = min(amount, max(0, balances.free_of(locked[available.pk])))
    parts = [(available, there), (debt, amount - there)]
    ledger.post(
        kind="payout_reserved",
        key=f"payout_reserved:{payout.public_id}",
        source_type="payout",
        source_id=payout.public_id,
        transfers=[Posting(source, clearing, nano) for source, nano in parts if nano],
        actor=actor,
        now=now,
        note="taken over after a backup was restored",
    )


def _remember_account(provider: Provider, seen: Transfer, now: datetime) -> None:
    """Note the provider's account at Stripe where the backup does not know it; the next look reads its state."""
    if PayoutAccount.objects.filter(stripe_account=seen.destination).exists():
        return
    row, _ = PayoutAccount.objects.get_or_create(provider=provider, defaults={"created_at": now})
    PayoutAccount.objects.filter(pk=row.pk, stripe_account=None).update(stripe_account=seen.destination)
