"""People, the organizations they act for, their projects, and the keys that act for an organization."""

from portal.accounts.models.keys import AlertKind, ApiKey, KeyAlert, KeySighting, RetiredSecret
from portal.accounts.models.organizations import Invitation, Membership, Organization, OrganizationState, Role
from portal.accounts.models.projects import Project
from portal.accounts.models.terms import BudgetPeriod
from portal.accounts.models.users import User

__all__ = [
    "AlertKind",
    "ApiKey",
    "BudgetPeriod",
    "Invitation",
    "KeyAlert",
    "KeySighting",
    "Membership",
    "Organization",
    "OrganizationState",
    "Project",
    "RetiredSecret",
    "Role",
    "User",
]
