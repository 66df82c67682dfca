"""Messages to people. Addresses and ids are text: nothing here points upward."""

from django.db import models


class Message(models.Model):
    """One e-mail, written with the fact that caused it and sent after commit."""

    key = models.CharField(max_length=120, unique=True)
    to = models.EmailField()
    template = models.CharField(max_length=64)
    context = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.template} to {self.to}"
