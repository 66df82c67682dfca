"""People, the organizations they act for, and the keys that act for an organization."""

from portal.accounts.models.keys import ApiKey
from portal.accounts.models.organizations import Invitation, Membership, Organization, OrganizationState, Role
from portal.accounts.models.users import User

__all__ = ["ApiKey", "Invitation", "Membership", "Organization", "OrganizationState", "Role", "User"]
