"""Which versions of the agent protocol are spoken here."""

from portal.core.errors import InvalidValue
from portal.nodes.rules.signatures import PROTOCOL


class ProtocolUnsupported(InvalidValue):
    """The agent speaks another version."""

    code = "protocol_unsupported"


def require_protocol(version: int) -> None:
    """Raise ProtocolUnsupported unless the version is spoken here."""
    if version != PROTOCOL:
        raise ProtocolUnsupported(f"this pool speaks version {PROTOCOL} of the agent protocol", param="protocol")
