"""Publishing releases of the agent, rolling them out, and stopping them."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue, NotFound
from portal.nodes.models import Node
from portal.nodes.models.releases import AgentRelease, NodeUpdates, ReleaseRing, ReleaseState
from portal.nodes.rules import releases as rules
from portal.nodes.rules.beats import UpdateClaim

_ALL = 100


class ReleaseExists(Conflict):
    """The version was published with other content."""

    code = "release_exists"


@dataclass(frozen=True, slots=True)
class Files:
    """A release as it was built, and signed or not."""

    manifest: bytes
    signature: str
    wheel: bytes
    requirements: bytes


def publish(*, files: Files, ring: ReleaseRing, percent: int, actor: Actor, now: datetime) -> AgentRelease:
    """Make a release available; the same one again changes nothing.

    Raises ReleaseInvalid, ReleaseSignatureInvalid, ReleaseExists, InvalidValue.
    """
    manifest = rules.read_manifest(files.manifest)
    if settings.AGENT_RELEASE_PUBLIC_KEY:
        key = settings.AGENT_RELEASE_PUBLIC_KEY
        rules.require_signature(manifest=files.manifest, signature=files.signature, public_key=key)
    rules.require_content(manifest.wheel, files.wheel)
    rules.require_content(manifest.requirements, files.requirements)
    _require_percent(percent)
    with transaction.atomic():
        row, is_new = AgentRelease.objects.select_for_update().get_or_create(
            version=manifest.version,
            defaults={
                "order": rules.version_order(manifest.version),
                "protocol": manifest.protocol,
                "manifest": files.manifest,
                "signature": files.signature if settings.AGENT_RELEASE_PUBLIC_KEY else "",
                "wheel_name": manifest.wheel.name,
                "wheel": files.wheel,
                "requirements": files.requirements,
                "ring": ring,
                "percent": percent,
                "published_at": now,
            },
        )
        if is_new:
            _record(row, "agent_release.published", actor=actor, now=now)
    if not is_new and bytes(row.manifest) != files.manifest:
        raise ReleaseExists(f"{row.version} was published with other content", fix="Raise the version and build again.")
    return row


def roll_out(*, version: str, ring: ReleaseRing, percent: int, actor: Actor, now: datetime) -> AgentRelease:
    """Offer a release to more or fewer nodes; a halted one goes on. Raises NotFound, InvalidValue, Conflict."""
    _require_percent(percent)
    with transaction.atomic():
        row = _locked(version)
        if row.state == ReleaseState.WITHDRAWN:
            raise Conflict(f"{version} was withdrawn", fix="Publish a higher version.")
        row.ring, row.percent, row.state, row.state_code = ring, percent, ReleaseState.OFFERED, ""
        row.save(update_fields=["ring", "percent", "state", "state_code"])
        _record(row, "agent_release.rolled_out", actor=actor, now=now)
    return row


def stop(*, version: str, withdraws: bool, actor: Actor, now: datetime) -> AgentRelease:
    """Offer a release to nobody: for the time being, or for good. Nodes that have it keep it. Raises NotFound."""
    with transaction.atomic():
        row = _locked(version)
        if row.state != ReleaseState.WITHDRAWN:
            row.state = ReleaseState.WITHDRAWN if withdraws else ReleaseState.HALTED
            row.state_code = "operator"
            row.save(update_fields=["state", "state_code"])
            _record(row, f"agent_release.{row.state}", actor=actor, now=now)
    return row


def take(*, node: Node, claim: UpdateClaim, now: datetime) -> None:
    """Note what a node says of its updates; a release that fails too often is halted."""
    before: NodeUpdates | None = getattr(node, "updates", None)
    if before is not None and (before.policy, before.tried, before.code) == (claim.policy, claim.tried, claim.code):
        return
    values = {"policy": claim.policy, "tried": claim.tried, "code": claim.code, "said_at": now}
    node.updates, _ = NodeUpdates.objects.update_or_create(node=node, defaults=values)
    if claim.tried and claim.code not in rules.NO_FAULT_CODES:
        _halt_where_it_fails(claim.tried, claim.code, now)


def _halt_where_it_fails(version: str, code: str, now: datetime) -> None:
    rows = NodeUpdates.objects.filter(tried=version)
    failed, tried = rows.exclude(code__in=rules.NO_FAULT_CODES).count(), rows.count()
    if not rules.must_halt(failed=failed, tried=tried):
        return
    row = AgentRelease.objects.select_for_update().filter(version=version, state=ReleaseState.OFFERED).first()
    if row is not None:
        row.state, row.state_code = ReleaseState.HALTED, code
        row.save(update_fields=["state", "state_code"])
        _record(row, "agent_release.halted", actor=audit.SYSTEM_ACTOR, now=now)


def _require_percent(percent: int) -> None:
    if not 0 <= percent <= _ALL:
        raise InvalidValue("the percentage is between 0 and 100", param="percent")


def _locked(version: str) -> AgentRelease:
    row = AgentRelease.objects.select_for_update().filter(version=version).first()
    if row is None:
        raise NotFound("there is no such release of the agent", param="version")
    return row


def _record(row: AgentRelease, event: str, *, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.version,
        now=now,
        detail={"ring": row.ring, "percent": row.percent, "code": row.state_code},
    )
