"""The accounts an organization may spend from."""

from dataclasses import dataclass

from portal.accounts.models import Organization
from portal.billing.models.ledger import LedgerAccount
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances, postpaid

_SPENT_IN_ORDER = (Kind.PROMO_CREDIT, Kind.CUSTOMER_CREDIT, Kind.POSTPAID_LINE)


@dataclass(frozen=True, slots=True)
class SpendableAccount:
    """One credit account with its balance, what of it is held by leases, and what is free (nano)."""

    account_id: int
    organization_id: int
    kind: Kind
    balance_nano: int
    held_nano: int

    @property
    def free_nano(self) -> int:
        """What could be leased."""
        return self.balance_nano - self.held_nano


def spendable_account_ids(*, organization_id: int) -> list[int]:
    """Return the ids of the organization's credit accounts."""
    return [account.account_id for account in spendable_accounts(organization_id=organization_id)]


def spendable_accounts(*, organization_id: int) -> list[SpendableAccount]:
    """Return the organization's credit accounts in the order they are spent: promotional credit first.

    The line of one that pays afterwards comes last, and only while it may be drawn on.
    """
    owner = Organization.objects.values_list("public_id", flat=True).get(pk=organization_id)
    codes = [chart.code(kind, owner) for kind in _SPENT_IN_ORDER]
    rows = {row.kind: row for row in LedgerAccount.objects.filter(code__in=codes)}
    if Kind.POSTPAID_LINE in rows and not postpaid.is_active(organization_id=organization_id):
        del rows[Kind.POSTPAID_LINE]
    return [
        SpendableAccount(rows[kind].pk, organization_id, kind, balances.balance_of(rows[kind]), rows[kind].held)
        for kind in _SPENT_IN_ORDER
        if kind in rows
    ]
