"""Messages to people. Addresses and ids are text: nothing here points upward."""

from django.db import models


class Message(models.Model):
    """One e-mail, written with the fact that caused it and sent after commit; `next_try_at` is None once it is over.

    `context` may hold a link's secret and is emptied when the message has left.
    """

    key = models.CharField(max_length=120, unique=True)
    to = models.EmailField()
    template = models.CharField(max_length=64)
    context = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True, db_index=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.template} to {self.to}"
