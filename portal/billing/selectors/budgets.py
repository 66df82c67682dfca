"""Where budgets stand: what was spent in their present window, what is held of it, and when it starts again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.billing.models.credit import BudgetWindow
from portal.billing.rules import windows
from portal.billing.rules.windows import BudgetTerms, Window


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """One budget in its present window (nano). The times are in the budget's zone; `resets_at` None: never.

    `spent_nano` is booked; `held_nano` is set aside for requests that run or are being booked.
    """

    owner: str
    period: str
    zone: str
    cap_nano: int
    spent_nano: int
    held_nano: int
    starts_at: datetime
    resets_at: datetime | None

    @property
    def left_nano(self) -> int:
        """What a new request could still get."""
        return max(0, self.cap_nano - self.spent_nano - self.held_nano)


def standings(*, budgets: Sequence[BudgetTerms], now: datetime) -> list[BudgetStanding]:
    """Return where each budget stands, in the order given; one that nobody drew on yet has spent nothing."""
    spans = [windows.window_of(period=terms.period, zone=terms.zone, at=now) for terms in budgets]
    rows = {
        (row.owner, row.period, row.starts_at, row.ends_at): row
        for row in BudgetWindow.objects.filter(
            owner__in=[terms.owner for terms in budgets], starts_at__in=[span.starts_at for span in spans]
        )
    }
    return [
        _standing(terms, span, rows.get((terms.owner, terms.period, span.starts_at, span.ends_at)))
        for terms, span in zip(budgets, spans, strict=True)
    ]


def standing(*, terms: BudgetTerms, now: datetime) -> BudgetStanding:
    """Return where one budget stands."""
    return standings(budgets=[terms], now=now)[0]


def _standing(terms: BudgetTerms, span: Window, row: BudgetWindow | None) -> BudgetStanding:
    zone = ZoneInfo(terms.zone)
    return BudgetStanding(
        owner=terms.owner,
        period=terms.period,
        zone=terms.zone,
        cap_nano=terms.cap_nano,
        spent_nano=row.used_nano if row else 0,
        held_nano=row.leased_nano if row else 0,
        starts_at=span.starts_at.astimezone(zone),
        resets_at=span.ends_at.astimezone(zone) if span.ends_at else None,
    )
