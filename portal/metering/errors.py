"""What the metering room refuses, by name."""

from portal.core.errors import Conflict, NotFound


class UsageConflict(Conflict):
    """A record with this key is stored with other content, or the request was charged in another attempt."""

    code = "usage_conflict"


class SpoolUnknown(NotFound):
    """No spool is registered under this id."""

    code = "spool_unknown"


class SpoolClosed(Conflict):
    """The spool was given up; it brings no more records."""

    code = "spool_closed"


class SpoolNotEmpty(Conflict):
    """The spool's file still exists or its process still lives, so it must not be given up."""

    code = "spool_not_empty"
