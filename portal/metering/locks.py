"""Row locks of this room."""

from portal.metering.errors import SpoolUnknown
from portal.metering.models import Spool


def spool(public_id: str) -> Spool:
    """Lock one spool: whoever ships or closes it waits for the other. Raises SpoolUnknown."""
    row = Spool.objects.select_for_update(no_key=True).filter(public_id=public_id).first()
    if row is None:
        raise SpoolUnknown(f"spool {public_id} is not registered", fix="the gateway registers its spool when it starts")
    return row
