"""What was delivered: one append-only row an attempt, partitioned by the day its spool opened it.

Ids of other rooms are stored as numbers or text; `ledger_check` verifies those that point upward.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Outcome(models.TextChoices):
    """How an attempt ended; rules.outcomes says which ones are charged and paid."""

    COMPLETED = "completed"
    CUSTOMER_ABORT = "customer_abort"
    CREDIT_END = "credit_end"
    PLATFORM_CRASH = "platform_crash"
    NODE_FAULT = "node_fault"
    NODE_TIMEOUT = "node_timeout"
    NODE_BUSY = "node_busy"
    EMPTY = "empty"
    CUSTOMER_ERROR = "customer_error"


class TokenSource(models.TextChoices):
    """Where the billed token counts come from."""

    CLAIM = "claim"
    COUNT = "count"
    BOUND = "bound"
    MARK = "mark"
    NONE = "none"


class UsageRecord(models.Model):
    """One attempt of one request, as its gateway process closed it. Token fields without a prefix are billed.

    `lease_charges` is the charge as the credit leases pay it, in their order; each budget's leases add up to it again.
    Migration 0002 writes the table itself: partitions, checks, indexes and the trigger have no word in Django.
    """

    pk = models.CompositePrimaryKey("opened_on", "request_id", "attempt")
    opened_on = models.DateField()
    request_id = models.UUIDField()
    attempt = models.SmallIntegerField()
    spool_id = models.CharField(max_length=40)
    spool_seq = models.BigIntegerField()
    organization_id = models.BigIntegerField()
    api_key_id = models.BigIntegerField()
    provider_id = models.BigIntegerField()
    node_id = models.BigIntegerField()
    model_id = models.BigIntegerField()
    price_version_id = models.BigIntegerField()
    share_bps = models.IntegerField()
    lease_ids = ArrayField(models.BigIntegerField())
    lease_charges = ArrayField(models.BigIntegerField())
    budget_lease_ids = ArrayField(models.BigIntegerField())
    budget_charges = ArrayField(models.BigIntegerField())
    prompt_tokens = models.IntegerField()
    cached_tokens = models.IntegerField()
    completion_tokens = models.IntegerField()
    claimed_prompt_tokens = models.IntegerField(null=True)
    claimed_cached_tokens = models.IntegerField(null=True)
    claimed_completion_tokens = models.IntegerField(null=True)
    counted_prompt_tokens = models.IntegerField(null=True)
    counted_completion_tokens = models.IntegerField(null=True)
    expected_cached_tokens = models.IntegerField(null=True)
    delivered_bytes = models.BigIntegerField()
    token_source = models.CharField(max_length=8, choices=TokenSource)
    hold_nano = models.BigIntegerField()
    charge_nano = models.BigIntegerField()
    provider_nano = models.BigIntegerField()
    platform_nano = models.BigIntegerField()
    outcome = models.CharField(max_length=16, choices=Outcome)
    error_code = models.CharField(max_length=48)
    is_stream = models.BooleanField()
    endpoint = models.CharField(max_length=24)
    node_class = models.CharField(max_length=16)
    country = models.CharField(max_length=2)
    client_request_id = models.CharField(max_length=128)
    opened_at = models.DateTimeField()
    first_token_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField()
    routing = models.JSONField(null=True)
    tunnel_proof = models.CharField(max_length=120, null=True)  # noqa: DJ001  null: its gateway left none
    content_hash = models.CharField(max_length=64)

    class Meta:
        db_table = "metering_usagerecord"

    def __str__(self) -> str:
        return f"{self.request_id}/{self.attempt}"


class Reader(models.TextChoices):
    """Who takes new usage records from the queue, each at its own pace."""

    BILLING = "billing"
    TRUST = "trust"
    HOURS = "hours"


class UsageQueue(models.Model):
    """One record that one reader has yet to take; the reader deletes the row in the transaction of its own work."""

    id = models.BigAutoField(primary_key=True)
    reader = models.CharField(max_length=8, choices=Reader)
    opened_on = models.DateField()
    request_id = models.UUIDField()
    attempt = models.SmallIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reader", "opened_on", "request_id", "attempt"], name="usage_queued_once"),
            models.CheckConstraint(condition=models.Q(reader__in=Reader.values), name="usage_reader_known"),
        ]
        indexes = [models.Index(fields=["reader", "id"], name="usage_queue_order")]

    def __str__(self) -> str:
        return f"{self.request_id}/{self.attempt} for {self.reader}"


class RefusedUsage(models.Model):
    """A spool record that contradicts a stored one: set aside whole, never charged, so that the rest can go on."""

    spool = models.ForeignKey("metering.Spool", on_delete=models.PROTECT, related_name="+")
    spool_seq = models.BigIntegerField()
    code = models.CharField(max_length=48)
    detail = models.TextField()
    record = models.JSONField()
    refused_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["spool", "spool_seq"], name="usage_refused_once")]

    def __str__(self) -> str:
        return f"{self.spool_id}/{self.spool_seq}: {self.code}"


class SpoolState(models.TextChoices):
    """Whether a spool may still bring records."""

    OPEN = "open"
    DRAINED = "drained"
    ABANDONED = "abandoned"


class Spool(models.Model):
    """One gateway process's spool file. `public_id` is written into the file itself."""

    public_id = models.CharField(max_length=40, unique=True)
    process = models.CharField(max_length=64)
    host = models.CharField(max_length=120)
    state = models.CharField(max_length=12, choices=SpoolState, default=SpoolState.OPEN)
    shipped_seq = models.BigIntegerField(default=0)
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(state__in=SpoolState.values), name="spool_state_known"),
            models.CheckConstraint(condition=models.Q(shipped_seq__gte=0), name="spool_seq_not_negative"),
        ]

    def __str__(self) -> str:
        return self.public_id


class UsageHour(models.Model):
    """What one node served one key of one model in one hour of completion (UTC); written by one aggregator in order.

    `claimed_*` and `counted_*` sum the attempts that have both, so that they may be compared.
    """

    hour = models.DateTimeField()
    organization_id = models.BigIntegerField()
    api_key_id = models.BigIntegerField()
    provider_id = models.BigIntegerField()
    node_id = models.BigIntegerField()
    model_id = models.BigIntegerField()
    attempts = models.BigIntegerField()
    charged = models.BigIntegerField()
    faults = models.BigIntegerField()
    prompt_tokens = models.BigIntegerField()
    cached_tokens = models.BigIntegerField()
    completion_tokens = models.BigIntegerField()
    claimed_tokens = models.BigIntegerField()
    counted_tokens = models.BigIntegerField()
    charge_nano = models.BigIntegerField()
    provider_nano = models.BigIntegerField()
    first_token_ms = models.BigIntegerField()
    streams = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization_id", "hour", "api_key_id", "node_id", "model_id"], name="usage_hour_once"
            ),
        ]
        indexes = [
            models.Index(fields=["provider_id", "hour"], name="usage_hour_by_provider"),
            models.Index(fields=["node_id", "hour"], name="usage_hour_by_node"),
        ]

    def __str__(self) -> str:
        return f"hour {self.hour:%Y-%m-%d %H}h of node {self.node_id}"


class TurnedAway(models.Model):
    """How many requests for one model found no node in one minute (UTC), by the gateway's reason; the minute's sum.

    The reasons are those of the gateway's `no_capacity`: `full`, `busy`, `none`, `not_ready`, `tunnel`, `class`, …
    """

    minute = models.DateTimeField()
    model_id = models.BigIntegerField()
    reason = models.CharField(max_length=16)
    requests = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["minute", "model_id", "reason"], name="turned_away_once"),
            models.CheckConstraint(condition=models.Q(requests__gt=0), name="turned_away_positive"),
        ]

    def __str__(self) -> str:
        return f"model {self.model_id} at {self.minute:%H:%M}: {self.requests} {self.reason}"


class DroppedDay(models.Model):
    """A day whose partition was dropped because its time was over; late records of it are refused."""

    day = models.DateField(unique=True)
    records = models.BigIntegerField()
    dropped_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.day}: {self.records} records"
