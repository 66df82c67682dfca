"""Judges customers: a tier from facts, an operator's pin above it, and stops where cards tell of fraud."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.models import CustomerRisk, StopKind
from portal.billing.rules import risk as rules
from portal.billing.rules.risk import Holds, Tier
from portal.billing.selectors import risk as selectors
from portal.billing.services import stops
from portal.core.errors import InvalidValue

JUDGE_AGAIN_AFTER = timedelta(hours=12)


def holds() -> Holds:
    """Return for how long earnings from each tier's money mature, as the settings say."""
    return Holds(
        new=settings.CUSTOMER_NEW_HOLD_DAYS,
        known=settings.CUSTOMER_KNOWN_HOLD_DAYS,
        trusted=settings.CUSTOMER_TRUSTED_HOLD_DAYS,
    )


def begin(*, organization_id: int, now: datetime) -> None:
    """Count an organization that has just paid by card as new, until it is judged."""
    CustomerRisk.objects.get_or_create(
        organization_id=organization_id, defaults={"tier": Tier.NEW, "reasons": [], "judged_at": now}
    )


def judge(*, organization_id: int, now: datetime) -> CustomerRisk:
    """Bring the organization's tier to what the facts say now, and stop its spending where its cards are suspicious."""
    organization = Organization.objects.get(pk=organization_id)
    judged = rules.judge(selectors.facts_of(organization=organization), now=now)
    with transaction.atomic():
        row, _ = CustomerRisk.objects.select_for_update().get_or_create(
            organization=organization, defaults={"tier": judged.tier, "judged_at": now}
        )
        before, row.tier = row.tier, judged.tier
        row.reasons, row.judged_at = list(judged.reasons), now
        row.save(update_fields=["tier", "reasons", "judged_at"])
        if before != judged.tier:
            audit.record(
                actor=SYSTEM_ACTOR,
                event="customer.tier_changed",
                subject=organization.public_id,
                organization=organization.public_id,
                detail={"from": before, "to": judged.tier, "reasons": list(judged.reasons)},
                now=now,
            )
    _look_at_cards(organization, now)
    return row


def judge_due(*, now: datetime) -> int:
    """Judge those whom nobody has judged for a while; return how many."""
    due = selectors.to_judge(before=now - JUDGE_AGAIN_AFTER)
    for organization_id in due:
        judge(organization_id=organization_id, now=now)
    return len(due)


def pin(*, organization: Organization, tier: str, note: str, actor: Actor, now: datetime) -> CustomerRisk:
    """Set the tier by hand, or let the facts decide again where `tier` is empty. Raises InvalidValue."""
    if tier and tier not in set(Tier):
        raise InvalidValue(f"use one of {', '.join(Tier)}, or nothing", param="tier")
    if not note.strip():
        raise InvalidValue("say why; it is kept in the audit log", param="note")
    with transaction.atomic():
        row, _ = CustomerRisk.objects.select_for_update().get_or_create(
            organization=organization, defaults={"tier": Tier.NEW, "judged_at": now}
        )
        before, row.pinned_tier = row.pinned_tier, tier
        row.pinned_by, row.pinned_note = (actor.public_id, note.strip()[:240]) if tier else ("", "")
        row.save(update_fields=["pinned_tier", "pinned_by", "pinned_note"])
        audit.record(
            actor=actor,
            event="customer.tier_pinned" if tier else "customer.tier_unpinned",
            subject=organization.public_id,
            organization=organization.public_id,
            detail={"from": before, "to": tier, "note": note.strip()},
            now=now,
        )
    return row


def _look_at_cards(organization: Organization, now: datetime) -> None:
    cards = selectors.cards_of(organization=organization, since=now - selectors.CARDS_COUNT_FOR)
    for digest in selectors.contested_cards(digests=[card.digest for card in cards], not_of=organization):
        stops.stop(
            organization=organization,
            kind=StopKind.KNOWN_CARD,
            subject=digest,
            note="this card was disputed or warned of at another organization",
            actor=SYSTEM_ACTOR,
            now=now,
        )
    if settings.TOPUP_CARDS and len(cards) > settings.TOPUP_CARDS:
        stops.stop(
            organization=organization,
            kind=StopKind.CARDS,
            subject=cards[0].digest,
            note=f"{len(cards)} different cards within {selectors.CARDS_COUNT_FOR.days} days",
            actor=SYSTEM_ACTOR,
            now=now,
        )
