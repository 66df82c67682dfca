"""Decisions about a provider that reach its nodes at once."""

from datetime import datetime

from django.db import transaction

from portal.audit.services import Actor
from portal.nodes.models import Node, NodeState
from portal.nodes.rules import states
from portal.nodes.services import lifecycle
from portal.providers.models import Provider
from portal.providers.services import review


def suspend_provider(*, provider_id: str, reason: str, actor: Actor, now: datetime) -> Provider:
    """Suspend the provider and every node of it. Raises ProviderMoveRefused, InvalidValue."""
    with transaction.atomic():
        provider = review.suspend_provider(provider_id=provider_id, reason=reason, actor=actor, now=now)
        for node_id in _node_ids(provider, states.LIVE_STATES | {NodeState.OFFLINE, NodeState.ENROLLED}):
            lifecycle.suspend(node_id=node_id, reason=reason, code="provider_suspended", actor=actor, now=now)
    return provider


def reinstate_provider(*, provider_id: str, actor: Actor, now: datetime) -> Provider:
    """Approve a suspended provider again and lift what that suspension put on its nodes. Raises ProviderMoveRefused."""
    with transaction.atomic():
        provider = review.approve_provider(provider_id=provider_id, actor=actor, now=now)
        rows = Node.objects.filter(provider=provider, state=NodeState.SUSPENDED, state_code="provider_suspended")
        for node_id in rows.order_by("id").values_list("public_id", flat=True):
            lifecycle.lift_suspension(node_id=node_id, actor=actor, now=now)
    return provider


def _node_ids(provider: Provider, in_states: frozenset[str]) -> list[str]:
    rows = Node.objects.filter(provider=provider, state__in=in_states).order_by("id")
    return list(rows.values_list("public_id", flat=True))
