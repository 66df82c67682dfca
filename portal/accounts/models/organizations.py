"""Organizations, who belongs to them and who is invited."""

from django.db import models

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


class Organization(models.Model):
    """A customer, a provider, or both at once."""

    public_id = models.CharField(max_length=40, unique=True, default=_organization_id, editable=False)
    name = models.CharField(max_length=120)
    state = models.CharField(max_length=12, choices=OrganizationState, default=OrganizationState.ACTIVE)
    country = models.CharField(max_length=2, blank=True)
    is_customer = models.BooleanField(default=True)
    is_provider = models.BooleanField(default=False)
    time_zone = models.CharField(max_length=64, default="UTC")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
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
