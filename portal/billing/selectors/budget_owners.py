"""Who has a budget: a key, a project or an organization, found by its public id."""

from dataclasses import dataclass

from portal.accounts.models import ApiKey, Organization, Project
from portal.billing.lease_errors import BudgetOwnerUnknown


@dataclass(frozen=True, slots=True)
class BudgetOwner:
    """A budget as its owner has set it by now; no cap: none is kept."""

    organization_id: int
    cap_nano: int | None
    period: str


def find(*, owner: str) -> BudgetOwner:
    """Return the owner's budget. Raises BudgetOwnerUnknown."""
    found = _find(owner)
    if found is None:
        raise BudgetOwnerUnknown(f"no key, project or organization {owner} exists")
    organization_id, cap_nano, period = found
    return BudgetOwner(organization_id, cap_nano, period)


def _find(owner: str) -> tuple[int, int | None, str] | None:
    if owner.startswith("org_"):
        row = Organization.objects.filter(public_id=owner).values_list("pk", "budget_cap_nano", "budget_period")
    elif owner.startswith("proj_"):
        projects = Project.objects.filter(public_id=owner)
        row = projects.values_list("organization_id", "budget_cap_nano", "budget_period")
    else:
        row = ApiKey.objects.filter(public_id=owner).values_list("organization_id", "budget_cap_nano", "budget_period")
    return row.first()
