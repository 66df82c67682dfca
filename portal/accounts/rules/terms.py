"""Limits and budgets as people set them on keys, projects and organizations, and whether they can be used."""

from dataclasses import dataclass, fields
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from portal.core.errors import InvalidValue

PERIODS = ("day", "week", "month", "lifetime")
MAX_RATE = 10**12
MAX_CAP_NANO = 10**17
MAX_NAME = 80


@dataclass(frozen=True, slots=True)
class LimitTerms:
    """How much a minute and at once; None: nothing beyond the pool's own limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    parallel_requests: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be spent in each period; None: what the credit allows."""

    cap_nano: int | None = None
    period: str = "month"


NO_LIMITS = LimitTerms()
NO_BUDGET = Budget()


def require_limits(limits: LimitTerms) -> None:
    """Refuse limits that nobody could keep. Raises InvalidValue naming the field."""
    for field in fields(limits):
        value = getattr(limits, field.name)
        if value is not None and not 0 < value <= MAX_RATE:
            raise InvalidValue("A limit is at least 1; leave it empty for none.", param=field.name)


def require_budget(budget: Budget) -> None:
    """Refuse a budget without a usable cap or period. Raises InvalidValue naming the field."""
    if budget.period not in PERIODS:
        raise InvalidValue(f"A budget's period is one of {', '.join(PERIODS)}.", param="budget_period")
    if budget.cap_nano is not None and not 0 < budget.cap_nano <= MAX_CAP_NANO:
        raise InvalidValue("A budget is above zero; leave it empty for none.", param="budget_cap")


def require_name(name: str) -> str:
    """Return the name without outer blanks. Raises InvalidValue."""
    name = name.strip()
    if not name or len(name) > MAX_NAME:
        raise InvalidValue(f"A name has 1 to {MAX_NAME} characters.", param="name")
    return name


def require_zone(name: str) -> str:
    """Return the name of a known time zone. Raises InvalidValue."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidValue(f"There is no time zone {name[:64]!r}.", param="time_zone") from error
    return name


def stricter(first: int | None, second: int | None) -> int | None:
    """Return the lower of two limits, of which either may be absent."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
