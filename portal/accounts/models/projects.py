"""Projects: keys of one organization that share limits and a budget."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from portal.accounts.models.terms import LIMITS, Budgeted, Limited, period_known, positive_or_none
from portal.core import ids


def _project_id() -> str:
    return ids.public_id("proj")


class Project(Limited, Budgeted):
    """A purpose that keys serve together. An archived one has no live keys and takes no new ones."""

    organization = models.ForeignKey("accounts.Organization", on_delete=models.PROTECT, related_name="projects")
    public_id = models.CharField(max_length=40, unique=True, default=_project_id, editable=False)
    name = models.CharField(max_length=80)
    created_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "organization", Lower("name"), condition=Q(archived_at=None), name="project_name_once"
            ),
            positive_or_none("project_limits_positive", *LIMITS, "budget_cap_nano"),
            period_known("project_period_known"),
        ]

    def __str__(self) -> str:
        return self.name
