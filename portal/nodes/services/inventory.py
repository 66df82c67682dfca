"""Keeps the list of a node's GPUs as the node reports them."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import orjson

from portal.nodes.models import Gpu, Node
from portal.nodes.rules import hardware, readings
from portal.nodes.rules.beats import GpuClaim, GpuError

# In the node's load: a digest of each GPU of the last heartbeat, by UUID; None where it read none.
DIGESTS = "gpu_digests"
_TOLD = [
    "index", "name", "memory_bytes", "driver", "compute_capability", "report", "is_present", "unread_code",
    "fault_code",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Taken:
    """Whether the node has GPUs that are known, and what its load keeps of this heartbeat under DIGESTS."""

    has_gpus: bool
    digests: dict[str, str] | None


def take(*, node: Node, claims: Sequence[GpuClaim], errors: Sequence[GpuError], now: datetime) -> Taken:
    """Store the claims under the node's lock; the same again writes the time alone.

    A GPU that is no longer reported stays, as absent; where nothing at all could be read, all stay as they were.
    Comes before the node's load is written, since that says what the last heartbeat reported.
    """
    if code := hardware.unreadable_library(claims, errors):
        known = Gpu.objects.filter(node=node, is_present=True).update(unread_code=code[:48])
        return Taken(has_gpus=known > 0, digests=None)
    unfit = hardware.unfit_by_gpu(errors)
    told = {claim.uuid: _row(node, claim, fault=unfit.get(claim.uuid, ""), now=now) for claim in claims}
    digests = {uuid: _digest(row) for uuid, row in sorted(told.items())}
    before = node.load.get(DIGESTS)
    _store(node, told, same={uuid for uuid in told if (before or {}).get(uuid) == digests[uuid]}, now=now)
    if before is None or not told.keys() >= set(before):
        _mark_gone(node, told, hardware.faults_by_gpu(errors))
    return Taken(has_gpus=bool(told), digests=digests or None)


def _store(node: Node, told: Mapping[str, Gpu], *, same: Collection[str], now: datetime) -> None:
    if same:
        Gpu.objects.filter(node=node, uuid__in=same).update(last_seen_at=now)
    Gpu.objects.bulk_create(
        [row for uuid, row in sorted(told.items()) if uuid not in same],
        update_conflicts=True,
        unique_fields=["node", "uuid"],
        update_fields=[*_TOLD, "last_seen_at"],
    )


def _mark_gone(node: Node, present: Collection[str], faults: Mapping[str, str]) -> None:
    gone = list(Gpu.objects.filter(node=node, is_present=True).exclude(uuid__in=present))
    for gpu in gone:
        gpu.is_present, gpu.unread_code = False, faults.get(gpu.uuid, "gpu_not_found")[:48]
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


def _digest(row: Gpu) -> str:
    content = orjson.dumps({name: getattr(row, name) for name in _TOLD}, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:16]
