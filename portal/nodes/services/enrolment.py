"""How a machine joins: a single-use token is exchanged for an identity bound to the agent's key."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from portal.accounts.models import User
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core import ids
from portal.core.errors import Conflict, DomainError, InvalidValue, NotFound
from portal.integrations import bus
from portal.nodes.models import EnrolmentToken, Node, NodeEvent, NodeOrigin, NodeState, RoundReason
from portal.nodes.rules import classes, signatures
from portal.nodes.services import check_rounds, moves
from portal.nodes.services.protocol import require_protocol
from portal.providers.models import Provider, ProviderKind

TOKEN_PREFIX = "ph-enrol-"  # noqa: S105  the public beginning of every token
DEFAULT_TTL = timedelta(hours=1)
LONGEST_TTL = timedelta(days=7)
_SECRET_LENGTH = 32  # 160 bits


class EnrolmentTokenInvalid(DomainError):
    """The token is unknown or revoked."""

    code = "enrolment_token_invalid"


class EnrolmentTokenExpired(DomainError):
    """The token's time is over."""

    code = "enrolment_token_expired"


class EnrolmentTokenUsed(Conflict):
    """Another key joined with the token."""

    code = "enrolment_token_used"


class NodeKeyTaken(Conflict):
    """The key is bound to another node."""

    code = "node_key_taken"


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A new token; `text` is shown once."""

    row: EnrolmentToken
    text: str


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What a machine says when it joins."""

    public_key: str
    name: str
    agent_version: str
    protocol: int
    is_simulated: bool = False
    host: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The node, and whether this call made it (a retry is answered the same)."""

    node: Node
    is_new: bool


def create_token(
    *,
    provider: Provider,
    label: str,
    created_by: User | None,
    actor: Actor,
    now: datetime,
    ttl: timedelta = DEFAULT_TTL,
) -> CreatedToken:
    """Make a token for one machine. Raises InvalidValue."""
    require_active(provider.organization)
    if not timedelta(0) < ttl <= LONGEST_TTL:
        raise InvalidValue("a token lives up to seven days", param="ttl")
    text = TOKEN_PREFIX + ids.random_text(_SECRET_LENGTH)
    with transaction.atomic():
        row = EnrolmentToken.objects.create(
            provider=provider,
            public_id=ids.public_id("enrol"),
            token_hash=digest(text),
            label=label.strip()[:80],
            created_by=created_by,
            created_at=now,
            expires_at=now + ttl,
        )
        _record(row, "enrolment_token.created", actor=actor, now=now)
    return CreatedToken(row=row, text=text)


def revoke_token(*, provider: Provider, public_id: str, actor: Actor, now: datetime) -> EnrolmentToken:
    """Make the token worthless; a node that joined with it stays. Raises NotFound."""
    with transaction.atomic():
        row = EnrolmentToken.objects.select_for_update().filter(provider=provider, public_id=public_id).first()
        if row is None:
            raise NotFound("there is no such token", param="token")
        if row.revoked_at is None:
            row.revoked_at = now
            row.save(update_fields=["revoked_at"])
            _record(row, "enrolment_token.revoked", actor=actor, now=now)
    return row


def enrol_node(*, token: str, enrolment: Enrolment, address: str | None, now: datetime) -> Enrolled:
    """Exchange the token for a node. The same token with the same key is answered the same again.

    Raises EnrolmentTokenInvalid, EnrolmentTokenExpired, EnrolmentTokenUsed, NodeKeyTaken, InvalidValue.
    """
    require_protocol(enrolment.protocol)
    public_key = signatures.require_public_key(enrolment.public_key)
    with transaction.atomic():
        row = _usable(token)
        known = row.node
        if known is None:
            return Enrolled(node=_join(row, enrolment, public_key, address=address, now=now), is_new=True)
        if known.public_key == public_key:
            return Enrolled(node=known, is_new=False)
        moves.note(node=known, code="enrolment_token_reused", now=now, detail={"address": address})
    raise EnrolmentTokenUsed(f"the token {row.label or row.public_id} was used by the node {known.name}")


def digest(text: str) -> str:
    """Return the hex SHA-256 under which a token is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def _usable(token: str) -> EnrolmentToken:
    """Lock the token's row. It is locked without joins: a joined row would be read as it was before the wait."""
    row = EnrolmentToken.objects.select_for_update().filter(token_hash=digest(token)).first()
    if row is None or row.revoked_at is not None:
        raise EnrolmentTokenInvalid("the enrolment token is unknown or revoked")
    return row


def _join(row: EnrolmentToken, enrolment: Enrolment, public_key: str, *, address: str | None, now: datetime) -> Node:
    if row.expires_at <= now:
        raise EnrolmentTokenExpired("the enrolment token has expired")
    node = _new_node(row.provider, enrolment, public_key, address=address, now=now)
    try:
        with transaction.atomic():
            node.save(force_insert=True)
    except IntegrityError as error:
        raise NodeKeyTaken("this key belongs to another node") from error
    check_rounds.ask(node=node, reason=RoundReason.JOIN, now=now)
    NodeEvent.objects.create(
        node=node, at=now, to_state=NodeState.ENROLLED, code="enrolled", cause="provider", detail={"address": address}
    )
    row.used_at, row.node = now, node
    row.save(update_fields=["used_at", "node"])
    audit.record(
        actor=Actor(public_id=node.public_id, address=address),
        event="node.enrolled",
        subject=node.public_id,
        now=now,
        organization=row.provider.organization.public_id,
        detail={"token": row.public_id},
    )
    bus.announce("nodes", node.public_id)
    return node


def _new_node(provider: Provider, enrolment: Enrolment, public_key: str, *, address: str | None, now: datetime) -> Node:
    is_house = provider.kind == ProviderKind.HOUSE
    return Node(
        provider=provider,
        name=enrolment.name.strip()[:80] or "node",
        node_class=classes.node_class(kind=provider.kind, is_identified=provider.is_identified),
        origin=NodeOrigin.OWNED if is_house else NodeOrigin.PROVIDER,
        country=provider.country,
        public_key=public_key,
        state=NodeState.ENROLLED,
        state_code="waiting_for_agent",
        state_cause="provider",
        state_changed_at=now,
        is_simulated=enrolment.is_simulated,
        agent_version=enrolment.agent_version[:32],
        host=dict(enrolment.host),
        last_address=address,
        enrolled_at=now,
    )


def _record(row: EnrolmentToken, event: str, *, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.public_id,
        now=now,
        organization=row.provider.organization.public_id,
        detail={"label": row.label},
    )
