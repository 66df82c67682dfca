"""Who did what to which thing: append-only, ids as text, so that the room sits at the bottom."""

from django.db import models


class AuditEvent(models.Model):
    """One act. `actor` and `subject` are public ids; `event` is `noun.verb`."""

    at = models.DateTimeField(db_index=True)
    event = models.CharField(max_length=64)
    actor = models.CharField(max_length=64)
    subject = models.CharField(max_length=96, db_index=True)
    organization = models.CharField(max_length=40, blank=True, db_index=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.event} {self.subject}"
