"""The operator's decisions about a provider. Nodes follow with their next heartbeat; suspending also stops them."""

from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import InvalidValue
from portal.integrations import bus
from portal.providers import locks
from portal.providers.models import Provider, ProviderKind, ProviderState
from portal.providers.rules import states


def approve_provider(*, provider_id: str, actor: Actor, now: datetime) -> Provider:
    """Let the provider's nodes serve; also lifts a suspension. Raises ProviderMoveRefused."""
    return _decide(provider_id, ProviderState.APPROVED, "", actor=actor, now=now)


def reject_provider(*, provider_id: str, reason: str, actor: Actor, now: datetime) -> Provider:
    """Refuse a submitted provider, with the reason it will read. Raises ProviderMoveRefused."""
    return _decide(provider_id, ProviderState.REJECTED, _given(reason), actor=actor, now=now)


def suspend_provider(*, provider_id: str, reason: str, actor: Actor, now: datetime) -> Provider:
    """Withdraw the approval, with the reason it will read. Raises ProviderMoveRefused."""
    return _decide(provider_id, ProviderState.SUSPENDED, _given(reason), actor=actor, now=now)


def set_kind(*, provider_id: str, kind: ProviderKind, actor: Actor, now: datetime) -> Provider:
    """Say whether the provider is the operator's own, contracted, or independent."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        before, provider.kind = provider.kind, kind
        provider.save(update_fields=["kind"])
        _record(provider, "provider.kind_set", actor=actor, now=now, before=before, after=kind.value)
    return provider


def set_external_engine(*, provider_id: str, allowed: bool, actor: Actor, now: datetime) -> Provider:
    """Give or take the right to serve from servers that the agent did not start."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        before, provider.may_use_external_engine = provider.may_use_external_engine, allowed
        provider.save(update_fields=["may_use_external_engine"])
        _record(provider, "provider.external_engine_set", actor=actor, now=now, before=before, after=allowed)
    return provider


def set_rights(
    *, provider_id: str, kind: ProviderKind, may_use_external_engine: bool, actor: Actor, now: datetime
) -> Provider:
    """Set kind and the right to external engines together."""
    with transaction.atomic():
        set_kind(provider_id=provider_id, kind=kind, actor=actor, now=now)
        return set_external_engine(provider_id=provider_id, allowed=may_use_external_engine, actor=actor, now=now)


def set_identity(*, provider_id: str, is_identified: bool, actor: Actor, now: datetime) -> Provider:
    """Note whether the payment partner has identified the provider; the class of its nodes follows."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        if provider.is_identified != is_identified:
            provider.is_identified = is_identified
            provider.save(update_fields=["is_identified"])
            _record(
                provider, "provider.identity_set", actor=actor, now=now, before=not is_identified, after=is_identified
            )
    return provider


def set_held_full(*, provider_id: str, is_full: bool, actor: Actor, now: datetime) -> Provider:
    """Note whether the earnings held back have reached their cap; routing follows."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        if provider.is_held_full != is_full:
            provider.is_held_full = is_full
            provider.save(update_fields=["is_held_full"])
            _record(provider, "provider.held_full_set", actor=actor, now=now, before=not is_full, after=is_full)
    return provider


def _decide(provider_id: str, after: ProviderState, reason: str, *, actor: Actor, now: datetime) -> Provider:
    with transaction.atomic():
        provider = locks.provider(provider_id)
        before = provider.state
        states.require_move(before=before, after=after)
        provider.state, provider.state_reason = after, reason
        provider.save(update_fields=["state", "state_reason"])
        _record(provider, f"provider.{after.value}", actor=actor, now=now, before=before, after=reason)
    return provider


def _record(provider: Provider, event: str, *, actor: Actor, now: datetime, before: object, after: object) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=provider.public_id,
        now=now,
        organization=provider.organization.public_id,
        detail={"before": before, "after": after},
    )
    bus.announce("nodes", provider.public_id)


def _given(reason: str) -> str:
    if not reason.strip():
        raise InvalidValue("give the reason; the provider will read it", param="reason")
    return reason.strip()[:240]
