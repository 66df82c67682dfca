"""Sessions: an agent proves its key, the newest session wins, and a copied key is found out."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from portal.core import ids
from portal.core.errors import DomainError, InvalidValue
from portal.nodes import locks
from portal.nodes.locks import NodeUnknown
from portal.nodes.models import Node, NodeSession, NodeState, SessionChallenge
from portal.nodes.rules import clones, signatures
from portal.nodes.services import moves, standing
from portal.nodes.services.protocol import require_protocol

HEARTBEAT_S = 15
SESSION_TTL = timedelta(minutes=10)
CHALLENGE_TTL = timedelta(seconds=60)
TOKEN_PREFIX = "ph-session-"  # noqa: S105  the public beginning of every token
_SECRET_LENGTH = 40  # 200 bits
_MOST_CHALLENGES = 20
_KEPT_SESSIONS = 50


class SignatureInvalid(DomainError):
    """The signature is not the node's over this challenge."""

    code = "signature_invalid"


class NonceInvalid(DomainError):
    """The challenge is unknown, used or expired."""

    code = "nonce_invalid"


class PublicUrlMismatch(InvalidValue):
    """The agent signed for another portal."""

    code = "public_url_mismatch"


class SessionExpired(DomainError):
    """The session token is unknown or its time is over."""

    code = "session_expired"


class SessionSuperseded(DomainError):
    """A newer session took over."""

    code = "session_superseded"


class NodeSuspended(DomainError):
    """The operator has stopped the node."""

    code = "node_suspended"


class NodeCloned(DomainError):
    """The node's key is used by two machines."""

    code = "node_cloned"


class NodeRetired(DomainError):
    """The node has left for good."""

    code = "node_retired"


@dataclass(frozen=True, slots=True)
class Challenge:
    """A nonce to sign, and how long it is good for."""

    nonce: str
    expires_in_s: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What an agent answers to a challenge."""

    node: str
    nonce: str
    public_url: str
    protocol: int
    instance: str
    signature: str


@dataclass(frozen=True, slots=True)
class Session:
    """An open session; `token` is told once."""

    token: str
    generation: int
    expires_in_s: int
    tunnel_url: str


@dataclass(frozen=True, slots=True)
class SessionIdentity:
    """Who a valid session token stands for."""

    node_id: int
    node_public_id: str
    generation: int


def challenge(*, node: str, now: datetime) -> Challenge:
    """Make a nonce that one session request may answer once. Raises NodeUnknown."""
    row = Node.objects.filter(public_id=node).first()
    if row is None:
        raise NodeUnknown("there is no such node", param="node")
    nonce = secrets.token_hex(32)
    with transaction.atomic():
        open_ids = SessionChallenge.objects.filter(node=row).order_by("-id").values_list("id", flat=True)
        SessionChallenge.objects.filter(id__in=list(open_ids[_MOST_CHALLENGES - 1 : _MOST_CHALLENGES + 100])).delete()
        SessionChallenge.objects.create(node=row, nonce=nonce, expires_at=now + CHALLENGE_TTL)
    return Challenge(nonce=nonce, expires_in_s=int(CHALLENGE_TTL.total_seconds()))


def open_session(*, request: SessionRequest, bearer: str, address: str | None, now: datetime) -> Session:
    """Open a session, or renew the one whose token `bearer` is.

    Raises ProtocolUnsupported, PublicUrlMismatch, NonceInvalid, SignatureInvalid and what `require_open` raises.
    """
    require_protocol(request.protocol)
    if request.public_url.rstrip("/") != settings.PUBLIC_URL:
        raise PublicUrlMismatch(f"this pool is {settings.PUBLIC_URL}", param="public_url")
    _spend_nonce(request, now=now)
    with transaction.atomic():
        node = locks.node(request.node)
        _require_signature(node, request)
        require_open(node)
        session = _renewed(node, request, bearer, now=now) or _opened(node, request, address=address, now=now)
    if session is None:
        raise NodeCloned("two machines use this node's key", fix=None)
    return session


def authenticate(*, token: str, now: datetime) -> SessionIdentity:
    """Return whose session the token is. Raises SessionExpired, SessionSuperseded and what `require_open` raises."""
    row = NodeSession.objects.select_related("node").filter(token_hash=_digest(token)).first()
    node = _require_newest(row, now=now)
    return SessionIdentity(node_id=node.pk, node_public_id=node.public_id, generation=node.generation)


def lock_node(*, token: str, now: datetime) -> Node:
    """Lock the node whose newest session the token is, in one query. Raises what `authenticate` raises."""
    return _require_newest(locks.node_of_session(_digest(token)), now=now)


def forget_expired_challenges(*, now: datetime) -> int:
    """Delete challenges whose time is over; return how many."""
    return SessionChallenge.objects.filter(expires_at__lte=now).delete()[0]


def require_open(node: Node) -> None:
    """Raise NodeRetired, NodeCloned or NodeSuspended where the node may not have sessions."""
    if node.state == NodeState.RETIRED:
        raise NodeRetired("this node is retired")
    if node.state == NodeState.SUSPENDED and node.state_code == NodeCloned.code:
        raise NodeCloned("two machines use this node's key")
    if node.state == NodeState.SUSPENDED:
        raise NodeSuspended(f"this node is suspended: {node.state_reason or 'ask the operator'}")


def tunnel_url() -> str:
    """Return where agents open their tunnel."""
    parts = urlsplit(settings.GATEWAY_URL)
    return f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{parts.path}/agent/v1/tunnel"


def _require_newest(row: NodeSession | None, *, now: datetime) -> Node:
    if row is None:
        raise SessionExpired("the session token is unknown or was renewed")
    require_open(row.node)
    if row.generation < row.node.generation:
        raise SessionSuperseded("a newer session took over")
    if row.expires_at <= now:
        raise SessionExpired("the session token has expired")
    return row.node


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _spend_nonce(request: SessionRequest, *, now: datetime) -> None:
    """Use the nonce up, whatever comes of the request: in a statement of its own, so that a race has one winner.

    The UPDATE names its own table's columns alone: with a join the database would not look at `used_at` again after
    waiting for the row.
    """
    row = SessionChallenge.objects.select_related("node").filter(nonce=request.nonce).first()
    if row is None or row.node.public_id != request.node:
        raise NonceInvalid("the challenge is unknown, used or expired", param="nonce")
    unused = SessionChallenge.objects.filter(pk=row.pk, used_at__isnull=True, expires_at__gt=now)
    if not unused.update(used_at=now):
        raise NonceInvalid("the challenge is unknown, used or expired", param="nonce")


def _require_signature(node: Node, request: SessionRequest) -> None:
    message = signatures.session_message(
        nonce=request.nonce, node=node.public_id, public_url=settings.PUBLIC_URL, protocol=request.protocol
    )
    if not signatures.is_signed(public_key=node.public_key, message=message, signature=request.signature):
        raise SignatureInvalid("the signature is not this node's", param="signature")


def _renewed(node: Node, request: SessionRequest, bearer: str, *, now: datetime) -> Session | None:
    """Renew the newest session for the process that holds its token, else None."""
    if not bearer:
        return None
    row = NodeSession.objects.filter(
        node=node,
        generation=node.generation,
        token_hash=_digest(bearer),
        instance=request.instance,
        expires_at__gt=now,
    ).first()
    if row is None:
        return None
    token = TOKEN_PREFIX + ids.random_text(_SECRET_LENGTH)
    row.token_hash, row.expires_at = _digest(token), now + SESSION_TTL
    row.save(update_fields=["token_hash", "expires_at"])
    return _session(token, row.generation)


def _opened(node: Node, request: SessionRequest, *, address: str | None, now: datetime) -> Session | None:
    """Begin a new generation; None where this flip showed that the key exists twice (the node is then suspended)."""
    token = TOKEN_PREFIX + ids.random_text(_SECRET_LENGTH)
    node.generation += 1
    node.last_address = address
    node.save(update_fields=["generation", "last_address"])
    NodeSession.objects.create(
        node=node,
        generation=node.generation,
        token_hash=_digest(token),
        instance=request.instance,
        address=address,
        created_at=now,
        expires_at=now + SESSION_TTL,
    )
    NodeSession.objects.filter(node=node, generation__lte=node.generation - _KEPT_SESSIONS).delete()
    if _flips(node, now=now) >= clones.FLIPS_TO_SUSPEND:
        _suspend_clone(node, now=now)
        return None
    standing.welcome(node=node, now=now)
    return _session(token, node.generation)


def _flips(node: Node, *, now: datetime) -> int:
    rows = NodeSession.objects.filter(node=node).order_by("generation").values_list("instance", "created_at")
    return clones.flips([clones.Opening(instance=instance, at=at) for instance, at in rows], now=now)


def _suspend_clone(node: Node, *, now: datetime) -> None:
    addresses = NodeSession.objects.filter(node=node, created_at__gt=now - clones.FLIP_WINDOW)
    seen = sorted({str(address) for address in addresses.values_list("address", flat=True) if address})
    moves.move(
        node=node,
        to=moves.Move(state=NodeState.SUSPENDED, code=NodeCloned.code, detail={"addresses": seen}),
        now=now,
    )


def _session(token: str, generation: int) -> Session:
    return Session(
        token=token,
        generation=generation,
        expires_in_s=int(SESSION_TTL.total_seconds()),
        tunnel_url=tunnel_url(),
    )
