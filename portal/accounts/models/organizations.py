"""Organizations, who belongs to them and who is invited."""

from django.db import models

from portal.accounts.models.terms import LIMITS, Budgeted, Limited, period_known, positive_or_none
from portal.core import ids


def _organization_id() -> str:
    return ids.public_id("org")


class OrganizationState(models.TextChoices):
    """Whether the organization may act."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class Role(models.TextChoices):
    """What a member may do; each role includes the ones below it."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    READ_ONLY = "read_only", "Read-only"


class Organization(Limited, Budgeted):
    """A customer, a provider, or both at once.

    Its limits and budget are its own and hold over all its keys together; the ceilings are the operator's.
    `stopped_for` is why nothing may be spent for now, empty while it may.
    """

    public_id = models.CharField(max_length=40, unique=True, default=_organization_id, editable=False)
    name = models.CharField(max_length=120)
    state = models.CharField(max_length=12, choices=OrganizationState, default=OrganizationState.ACTIVE)
    stopped_for = models.CharField(max_length=16, blank=True)
    country = models.CharField(max_length=2, blank=True)
    is_customer = models.BooleanField(default=True)
    is_provider = models.BooleanField(default=False)
    time_zone = models.CharField(max_length=64, default="UTC")
    ceiling_requests_per_minute = models.BigIntegerField(null=True, blank=True)
    ceiling_tokens_per_minute = models.BigIntegerField(null=True, blank=True)
    ceiling_parallel_requests = models.BigIntegerField(null=True, blank=True)
    alerts_new_network = models.BooleanField(default=True)
    alerts_new_country = models.BooleanField(default=True)
    alerts_spend_spike = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            positive_or_none("organization_limits_positive", *LIMITS, "budget_cap_nano"),
            positive_or_none("organization_ceilings_positive", *(f"ceiling_{name}" for name in LIMITS)),
            period_known("organization_period_known"),
            models.CheckConstraint(
                condition=models.Q(state__in=OrganizationState.values), name="organization_state_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person's role in one organization."""

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="memberships")
    user = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=12, choices=Role)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organization", "user"], name="membership_once"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role} of {self.organization_id}"


class Invitation(models.Model):
    """An invitation by e-mail. Without an organization it only opens sign-up where sign-up is by invitation."""

    organization = models.ForeignKey(
        Organization, null=True, blank=True, on_delete=models.PROTECT, related_name="invitations"
    )
    email = models.EmailField()
    role = models.CharField(max_length=12, choices=Role, default=Role.MEMBER)
    token_hash = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.email
