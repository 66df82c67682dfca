"""Keeps the list of a node's GPUs as the node reports them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from portal.nodes.models import Gpu, Node
from portal.nodes.rules import hardware, readings
from portal.nodes.rules.beats import GpuClaim, GpuError

# In the node's load: the GPUs of the last heartbeat; None where it read none.
UUIDS = "gpu_uuids"
_FIELDS = [
    "index", "name", "memory_bytes", "driver", "compute_capability", "report", "is_present", "unread_code",
    "fault_code", "last_seen_at",
]  # fmt: skip


def take(*, node: Node, claims: Sequence[GpuClaim], errors: Sequence[GpuError], now: datetime) -> bool:
    """Store the claims under the node's lock; tell whether the node has GPUs that are known.

    A GPU that is no longer reported stays, as absent; where nothing at all could be read, all stay as they were.
    Comes before the node's load is written, since that says what the last heartbeat reported.
    """
    if code := hardware.unreadable_library(claims, errors):
        return Gpu.objects.filter(node=node, is_present=True).update(unread_code=code[:48]) > 0
    present = {claim.uuid: claim for claim in claims}
    faults, unfit = hardware.faults_by_gpu(errors), hardware.unfit_by_gpu(errors)
    Gpu.objects.bulk_create(
        [_row(node, claim, fault=unfit.get(uuid, ""), now=now) for uuid, claim in sorted(present.items())],
        update_conflicts=True,
        unique_fields=["node", "uuid"],
        update_fields=_FIELDS,
    )
    before = node.load.get(UUIDS)
    if before is None or not present.keys() >= set(before):
        _mark_gone(node, present, faults)
    return bool(present)


def _mark_gone(node: Node, present: Collection[str], faults: Mapping[str, str]) -> None:
    gone = list(Gpu.objects.filter(node=node, is_present=True).exclude(uuid__in=present))
    for gpu in gone:
        gpu.is_present, gpu.unread_code = False, faults.get(gpu.uuid, "gpu_not_found")
    Gpu.objects.bulk_update(gone, ["is_present", "unread_code"])


def _row(node: Node, claim: GpuClaim, *, fault: str, now: datetime) -> Gpu:
    kept = readings.gpu(claim.values, claim.missing)
    memory = claim.memory_bytes
    if memory is not None and not 0 < memory <= readings.MAX_MEMORY_BYTES:
        memory, kept.missing["memory"] = None, readings.IMPLAUSIBLE
    return Gpu(
        node=node,
        uuid=claim.uuid,
        index=claim.index,
        name=claim.name,
        memory_bytes=memory,
        driver=claim.driver,
        compute_capability=claim.compute_capability,
        report={"values": kept.values, "missing": kept.missing, "instances": [asdict(one) for one in claim.instances]},
        is_present=True,
        unread_code="",
        fault_code=fault,
        first_seen_at=now,
        last_seen_at=now,
    )
