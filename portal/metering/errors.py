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


class UsageStillNeeded(Conflict):
    """The day's records are not to be dropped yet: somebody still has to read, book, mature or state them."""

    code = "usage_still_needed"


class UsageTooOld(UsageConflict):
    """The record is of a day whose records were dropped, where nobody can tell any more whether it is known."""

    code = "usage_too_old"
