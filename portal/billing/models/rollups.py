"""Posted usage summed by UTC day of completion, written in the posting's own transaction; pages read these.

Ids of other rooms are plain numbers, so that a sum outlives what it counts.
"""

from django.db import models


class SpendDay(models.Model):
    """What one organization used and was charged on one day, by key, model and price version."""

    day = models.DateField()
    organization_id = models.BigIntegerField()
    api_key_id = models.BigIntegerField()
    model_id = models.BigIntegerField()
    price_version_id = models.BigIntegerField(default=0)
    requests = models.BigIntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    charge_nano = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization_id", "day", "model_id", "api_key_id", "price_version_id"], name="spend_day_once"
            ),
        ]
        indexes = [models.Index(fields=["day", "model_id"], name="spend_day_by_day")]

    def __str__(self) -> str:
        return f"spend of {self.organization_id} on {self.day}"


class EarningDay(models.Model):
    """What one provider's nodes served and earned on one day, by node, model and price version.

    `share_bps` is the share that was booked: 0 where it was withheld. `node_class` is the class that served.
    """

    day = models.DateField()
    provider_id = models.BigIntegerField()
    node_id = models.BigIntegerField()
    model_id = models.BigIntegerField()
    price_version_id = models.BigIntegerField(default=0)
    share_bps = models.PositiveIntegerField(default=0)
    node_class = models.CharField(max_length=16, blank=True)
    requests = models.BigIntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    charge_nano = models.BigIntegerField(default=0)
    earned_nano = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider_id", "day", "node_id", "model_id", "price_version_id", "share_bps", "node_class"],
                name="earning_day_once",
            ),
        ]
        indexes = [models.Index(fields=["day", "model_id"], name="earning_day_by_day")]

    def __str__(self) -> str:
        return f"earning of {self.provider_id} on {self.day}"
