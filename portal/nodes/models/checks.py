"""Health checks and benchmarks: rounds that nodes were asked for, what came out, and what it is held against."""

from django.db import models

from portal.core import ids


def _round_id() -> str:
    return ids.public_id("round")


class RoundReason(models.TextChoices):
    """Why a node was asked."""

    JOIN = "join", "it joined"
    SCHEDULE = "schedule", "it was due"
    DEMAND = "demand", "somebody asked"


class RoundState(models.TextChoices):
    """How far a round is. One that gave way to work is asked for again."""

    ASKED = "asked"
    RUNNING = "running"
    DONE = "done"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    EXPIRED = "expired"


OPEN_ROUNDS = frozenset({RoundState.ASKED, RoundState.RUNNING})


class CheckRound(models.Model):
    """One round of checks of one node; `percent` and `doing` are the agent's own words on the way."""

    public_id = models.CharField(max_length=40, unique=True, default=_round_id, editable=False)
    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="check_rounds")
    reason = models.CharField(max_length=12, choices=RoundReason)
    is_whole = models.BooleanField(default=True)
    state = models.CharField(max_length=12, choices=RoundState, default=RoundState.ASKED)
    code = models.CharField(max_length=48, blank=True)
    percent = models.PositiveSmallIntegerField(default=0)
    doing = models.CharField(max_length=80, blank=True)
    asked_by = models.CharField(max_length=64)
    asked_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-asked_at", "-id"]
        indexes = [models.Index(fields=["node", "-asked_at"], name="check_round_by_node")]
        constraints = [
            models.UniqueConstraint(
                fields=["node"],
                condition=models.Q(state__in=[RoundState.ASKED, RoundState.RUNNING]),
                name="check_round_one_open_a_node",
            ),
            models.CheckConstraint(condition=models.Q(state__in=RoundState.values), name="check_round_state_known"),
            models.CheckConstraint(condition=models.Q(reason__in=RoundReason.values), name="check_round_reason_known"),
            models.CheckConstraint(condition=models.Q(percent__lte=100), name="check_round_percent"),
        ]

    def __str__(self) -> str:
        return self.public_id


class CheckMode(models.TextChoices):
    """What a verdict does: nothing but be shown, keep the node from work, or the check is not judged at all."""

    SHADOW = "shadow", "Shadow: shown, without effect"
    ENFORCED = "enforced", "Enforced: a failure keeps the node from work"
    OFF = "off", "Off: stored, not judged"


class CheckPolicy(models.Model):
    """How a check is judged from `created_at` on: the highest revision holds, older ones stay as history.

    Percentages are of the hardware's reference figure, limits in thousandths of the check's unit.
    """

    check_id = models.CharField(max_length=48)
    revision = models.PositiveIntegerField()
    mode = models.CharField(max_length=12, choices=CheckMode)
    fail_percent = models.PositiveSmallIntegerField(default=70)
    warn_percent = models.PositiveSmallIntegerField(default=85)
    most_percent = models.PositiveSmallIntegerField(default=115)
    fail_limit_milli = models.BigIntegerField(null=True, blank=True)
    warn_limit_milli = models.BigIntegerField(null=True, blank=True)
    created_by = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["check_id", "-revision"]
        constraints = [
            models.UniqueConstraint(fields=["check_id", "revision"], name="check_policy_revision_once"),
            models.CheckConstraint(condition=models.Q(mode__in=CheckMode.values), name="check_policy_mode_known"),
            models.CheckConstraint(
                condition=models.Q(fail_percent__lte=models.F("warn_percent"))
                & models.Q(warn_percent__lte=models.F("most_percent")),
                name="check_policy_percents_in_order",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.check_id} revision {self.revision}"


class ReferenceFigure(models.Model):
    """What a check's figure should be on one kind of hardware, as the operator says: the highest revision holds.

    `figure_milli` is None where the operator has taken the figure back.
    """

    hardware = models.CharField(max_length=96)
    check_id = models.CharField(max_length=48)
    revision = models.PositiveIntegerField()
    figure_milli = models.BigIntegerField(null=True, blank=True)
    source = models.CharField(max_length=240, blank=True)
    created_by = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["hardware", "check_id", "-revision"]
        constraints = [
            models.UniqueConstraint(fields=["hardware", "check_id", "revision"], name="reference_figure_revision_once"),
            models.CheckConstraint(
                condition=models.Q(figure_milli__isnull=True) | models.Q(figure_milli__gt=0),
                name="reference_figure_positive",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.check_id} of {self.hardware}"


class Verdict(models.TextChoices):
    """What the portal makes of a result. `review`: a person has to look, the node is not blamed."""

    PASS = "pass"  # noqa: S105  no password
    WARN = "warn"
    FAIL = "fail"
    REVIEW = "review"
    SKIP = "skip"


class Opinion(models.TextChoices):
    """What the operator found when looking into a failure."""

    NONE = "", "Not looked at"
    RIGHT = "right", "The check was right"
    FALSE_ALARM = "false_alarm", "False alarm"


class CheckResult(models.Model):
    """One result of a round: the node's claim, what it was held against then, and the verdict. Never changed but for
    the operator's opinion."""

    round = models.ForeignKey(CheckRound, on_delete=models.CASCADE, related_name="results")
    node = models.ForeignKey("nodes.Node", on_delete=models.PROTECT, related_name="check_results")
    check_id = models.CharField(max_length=48)
    version = models.PositiveIntegerField()
    subject = models.CharField(max_length=96, blank=True)
    hardware = models.CharField(max_length=96, blank=True)
    status = models.CharField(max_length=4)
    code = models.CharField(max_length=48, blank=True)
    detail = models.CharField(max_length=400, blank=True)
    figure_milli = models.BigIntegerField(null=True, blank=True)
    unit = models.CharField(max_length=16, blank=True)
    evidence = models.JSONField(default=dict)
    verdict = models.CharField(max_length=8, choices=Verdict)
    verdict_code = models.CharField(max_length=48, blank=True)
    is_enforced = models.BooleanField()
    policy_revision = models.PositiveIntegerField()
    reference_milli = models.BigIntegerField(null=True, blank=True)
    limit_milli = models.BigIntegerField(null=True, blank=True)
    at = models.DateTimeField()
    opinion = models.CharField(max_length=12, choices=Opinion, blank=True, default=Opinion.NONE)
    opinion_by = models.CharField(max_length=64, blank=True)
    opinion_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["node", "check_id", "subject", "-at"], name="check_result_by_node"),
            models.Index(fields=["check_id", "hardware", "-at"], name="check_result_by_hardware"),
            models.Index(
                fields=["node"],
                condition=models.Q(is_enforced=True, verdict=Verdict.FAIL),
                name="check_result_enforced_failure",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["round", "check_id", "subject"], name="check_result_once_a_round"),
            models.CheckConstraint(condition=models.Q(verdict__in=Verdict.values), name="check_result_verdict_known"),
            models.CheckConstraint(condition=models.Q(opinion__in=Opinion.values), name="check_result_opinion_known"),
        ]

    def __str__(self) -> str:
        return f"{self.check_id} {self.subject}: {self.verdict}"
