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
    found: ApiKey | Project | Organization | None
    if owner.startswith("org_"):
        found = Organization.objects.filter(public_id=owner).first()
    elif owner.startswith("proj_"):
        found = Project.objects.filter(public_id=owner).first()
    else:
        found = ApiKey.objects.filter(public_id=owner).first()
    if found is None:
        raise BudgetOwnerUnknown(f"no key, project or organization {owner} exists")
    organization_id = found.pk if isinstance(found, Organization) else found.organization_id
    return BudgetOwner(organization_id, found.budget_cap_nano, found.budget_period)
