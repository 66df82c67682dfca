"""What leasing credit and budgets refuses, by name."""

from portal.core.errors import Conflict, NotFound


class LeaseUnknown(NotFound):
    """There is no such lease."""

    code = "lease_unknown"


class LeaseClosed(Conflict):
    """The lease has returned its rest; nothing more may be charged to it."""

    code = "lease_closed"


class LeaseOverdrawn(Conflict):
    """The charge is more than what is left of the lease: the gateway and the database disagree."""

    code = "lease_overdrawn"


class RecordsMissing(Conflict):
    """The spool has not brought its last record yet, so its leases cannot return their rest."""

    code = "records_missing"


class BudgetOwnerUnknown(NotFound):
    """There is no key, project or organization of that public id."""

    code = "budget_owner_unknown"
