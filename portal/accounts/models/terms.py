"""What several owners have alike: limits a minute and at once, and a budget a period."""

from django.db import models
from django.db.models import Q


class BudgetPeriod(models.TextChoices):
    """When a budget starts again, in the organization's time zone."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    LIFETIME = "lifetime", "Lifetime (never starts again)"


class Limited(models.Model):
    """An owner of limits; None: nothing beyond the pool's own limit."""

    requests_per_minute = models.BigIntegerField(null=True, blank=True)
    tokens_per_minute = models.BigIntegerField(null=True, blank=True)
    parallel_requests = models.BigIntegerField(null=True, blank=True)

    class Meta:
        abstract = True


class Budgeted(models.Model):
    """An owner of a budget; without a cap only the credit limits it."""

    budget_cap_nano = models.BigIntegerField(null=True, blank=True)
    budget_period = models.CharField(max_length=8, choices=BudgetPeriod, default=BudgetPeriod.MONTH)

    class Meta:
        abstract = True


def positive_or_none(name: str, *fields: str) -> models.CheckConstraint:
    """Return the constraint that each of the fields is empty or above zero."""
    condition = Q()
    for field in fields:
        condition &= Q(**{f"{field}__isnull": True}) | Q(**{f"{field}__gt": 0})
    return models.CheckConstraint(condition=condition, name=name)


def period_known(name: str) -> models.CheckConstraint:
    """Return the constraint that the budget's period is one of ours."""
    return models.CheckConstraint(condition=Q(budget_period__in=BudgetPeriod.values), name=name)


LIMITS = ("requests_per_minute", "tokens_per_minute", "parallel_requests")
