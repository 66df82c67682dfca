"""Private nodes: who may use them. A guest is named by the provider and comes in by its own acceptance alone."""

from datetime import datetime

from django.db import transaction

from portal.accounts.models import Organization
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, NotFound
from portal.integrations import bus
from portal.nodes import locks
from portal.nodes.models import Node, NodeGuest
from portal.nodes.selectors.guests import MAX_GUESTS
from portal.nodes.services import decisions


class OwnNodes(Conflict):
    """An organization is never served by its own nodes, for which it would pay itself."""

    code = "own_nodes"


class NodeNotPrivate(Conflict):
    """Only a private node has guests."""

    code = "node_not_private"


class GuestExists(Conflict):
    """The organization is named for the node already."""

    code = "guest_exists"


class TooManyGuests(Conflict):
    """The node has as many guests as it may have."""

    code = "too_many_guests"


def set_private(*, node_id: str, is_private: bool, actor: Actor, now: datetime) -> Node:
    """Take the node out of the public pool, or give it back; guests stay named. Raises NodeRetired, NodeSuspended."""
    with transaction.atomic():
        node = decisions.lock_open(node_id)
        if node.is_private != is_private:
            node.is_private = is_private
            node.save(update_fields=["is_private"])
            decisions.record(node, "node.made_private" if is_private else "node.made_public", actor=actor, now=now)
    return node


def name_guest(*, node_id: str, organization_id: str, actor: Actor, now: datetime) -> NodeGuest:
    """Show the private node to an organization.

    Raises NotFound, NodeNotPrivate, OwnNodes, GuestExists, TooManyGuests.
    """
    with transaction.atomic():
        node = decisions.lock_open(node_id)
        guest = _named(organization_id)
        if not node.is_private:
            raise NodeNotPrivate("the node is in the public pool", fix="Make it private first.")
        if guest.pk == node.provider.organization_id:
            raise OwnNodes("an organization's own nodes never serve it", param="organization")
        if node.guests.filter(organization=guest).exists():
            raise GuestExists(f"{guest.public_id} is named already", param="organization")
        if node.guests.count() >= MAX_GUESTS:
            raise TooManyGuests(f"a node has at most {MAX_GUESTS} guests", param="organization")
        row = NodeGuest.objects.create(node=node, organization=guest, named_by=actor.public_id, named_at=now)
        decisions.record(node, "node.guest_named", actor=actor, now=now, guest=guest.public_id)
    return row


def remove_guest(*, node_id: str, organization_id: str, actor: Actor, now: datetime) -> None:
    """Hide the node from an organization again, or let this leave by itself. Raises NotFound."""
    with transaction.atomic():
        node = locks.node(node_id)
        row = _guest(node, organization_id)
        row.delete()
        decisions.record(node, "node.guest_removed", actor=actor, now=now, guest=organization_id)


def accept(*, node_id: str, organization: Organization, actor: Actor, now: datetime) -> NodeGuest:
    """Let a private node serve the organization at the prices set by now, announced ones too. Raises NotFound."""
    require_active(organization)
    with transaction.atomic():
        node = locks.node(node_id)
        row = _guest(node, organization.public_id)
        row.accepted_at = now
        row.save(update_fields=["accepted_at"])
        audit.record(
            actor=actor,
            event="node.guest_accepted",
            subject=node.public_id,
            now=now,
            organization=organization.public_id,
            detail={"provider": node.provider.public_id},
        )
        bus.announce("nodes", node.public_id)
    return row


def _named(organization_id: str) -> Organization:
    found = Organization.objects.filter(public_id=organization_id.strip()).first()
    if found is None:
        raise NotFound(
            "there is no organization with this id",
            param="organization",
            fix="Its owner finds the id on the page of the organization; it begins with org_.",
        )
    return found


def _guest(node: Node, organization_id: str) -> NodeGuest:
    row = NodeGuest.objects.filter(node=node, organization__public_id=organization_id).first()
    if row is None:
        raise NotFound("this organization is not named for the node", param="organization")
    return row
