"""Times when so many nodes were silent at once that the fault was the platform's."""

from django.db import models


class MassSilence(models.Model):
    """One such time. It goes on while sweeps see it; `nodes` is the most that were silent at once."""

    began_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(db_index=True)
    nodes = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(last_seen_at__gte=models.F("began_at")), name="mass_silence_ends_after_it_began"
            )
        ]

    def __str__(self) -> str:
        return f"{self.nodes} silent from {self.began_at:%Y-%m-%d %H:%M:%S}"
