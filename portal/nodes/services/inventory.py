"""Keeps the list of a node's GPUs as the node reports them."""

from collections.abc import Sequence
from datetime import datetime

from portal.nodes.models import Gpu, Node
from portal.nodes.rules.beats import GpuClaim


def take(*, node: Node, claims: Sequence[GpuClaim], now: datetime) -> bool:
    """Store the claims under the node's lock; a GPU that is no longer reported stays, as absent. Tell if any is known."""
    present = {claim.uuid: claim for claim in claims}
    rows = [_row(node, claim, now=now) for _, claim in sorted(present.items())]
    Gpu.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["node", "uuid"],
        update_fields=[
            "index",
            "name",
            "memory_bytes",
            "driver",
            "compute_capability",
            "report",
            "is_present",
            "last_seen_at",
        ],
    )
    Gpu.objects.filter(node=node, is_present=True).exclude(uuid__in=present).update(is_present=False)
    return bool(present)


def _row(node: Node, claim: GpuClaim, *, now: datetime) -> Gpu:
    return Gpu(
        node=node,
        uuid=claim.uuid,
        index=claim.index,
        name=claim.name,
        memory_bytes=claim.memory_bytes,
        driver=claim.driver,
        compute_capability=claim.compute_capability,
        report={"values": dict(claim.values), "missing": dict(claim.missing)},
        is_present=True,
        first_seen_at=now,
        last_seen_at=now,
    )
