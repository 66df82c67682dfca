"""What a node's GPUs, as it reports them, mean for its work."""

from collections.abc import Iterable, Sequence

from poolhouse_common import failures, gpu_faults

from portal.core.errors import Conflict
from portal.nodes.rules.beats import GpuClaim, GpuError


class GpusCannotServe(Conflict):
    """No GPU of the machine is of a kind that can serve."""

    code = "gpus_cannot_serve"


def blocking(claims: Sequence[GpuClaim], errors: Sequence[GpuError]) -> tuple[str, ...]:
    """Return the errors' codes where no GPU is left that may take work: one bad card stops no others."""
    unfit = {error.detail for error in errors if error.code in gpu_faults.UNFIT}
    if any(claim.uuid not in unfit for claim in claims):
        return ()
    return tuple(error.code for error in errors)


def unreadable_library(claims: Sequence[GpuClaim], errors: Sequence[GpuError]) -> str:
    """Return why nothing at all could be read, empty where something was: then the GPUs known are unread, not gone."""
    if claims:
        return ""
    return next((error.code for error in errors if error.code in gpu_faults.LIBRARY), "")


def unfit_by_gpu(errors: Iterable[GpuError]) -> dict[str, str]:
    """Return the first fault of each GPU that keeps new work from it."""
    return faults_by_gpu(error for error in errors if error.code in gpu_faults.UNFIT)


def require_a_kind_that_serves(faults: Sequence[str]) -> None:
    """Raise GpusCannotServe where every GPU of a machine is of a kind that cannot serve yet; none at all is none."""
    if faults and all(fault in gpu_faults.REFUSALS for fault in faults):
        known = failures.explain(faults[0])
        raise GpusCannotServe(f"{known.title}: {known.cause}", param="engine", fix=known.fix)


def faults_by_gpu(errors: Iterable[GpuError]) -> dict[str, str]:
    """Return the first fault that each GPU was named with; a fault of one GPU has its UUID as detail."""
    found: dict[str, str] = {}
    for error in errors:
        found.setdefault(error.detail, error.code)
    return found


def memory_bytes(*, whole: int | None, slices: Sequence[int | None]) -> int | None:
    """Return the memory that work can be given: a cut GPU's is its slices', not its own as well. None: unknown."""
    if not slices:
        return whole
    known = [size for size in slices if size is not None]
    return sum(known) if len(known) == len(slices) else None
