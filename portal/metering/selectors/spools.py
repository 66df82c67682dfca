"""Questions about registered spools."""

from portal.metering.errors import SpoolClosed
from portal.metering.models import Spool, SpoolState


def require_open(*, spool_id: int) -> None:
    """Raise SpoolClosed unless the spool may still bring records."""
    state = Spool.objects.values_list("state", flat=True).get(pk=spool_id)
    if state != SpoolState.OPEN:
        raise SpoolClosed(f"spool {spool_id} is {state}; nothing more is lent to it")
