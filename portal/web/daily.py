"""What the usage and earnings pages share: the query in the address, the chart's series and the table's rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.http import HttpResponse, QueryDict

from portal.billing.selectors.spend import Usage

DAYS = (7, 30, 90)
METRICS: Mapping[str, str] = {"cost": "money", "tokens": "tokens", "requests": "count"}
_VALUES: Mapping[str, str] = {"cost": "amount_nano", "tokens": "tokens", "requests": "requests"}


@dataclass(frozen=True, slots=True)
class View:
    """Which days, grouped by what, and which figure the chart shows; unknown words fall back to the first choice."""

    first: date
    last: date
    days: int
    group: str
    metric: str

    @property
    def unit(self) -> str:
        """How the chart writes its figures."""
        return METRICS[self.metric]

    @property
    def query(self) -> str:
        """The query string of this view."""
        return f"?days={self.days}&group={self.group}&metric={self.metric}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One link of a filter."""

    label: str
    query: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: a group or a day with its sums."""

    name: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    amount_nano: int


def read(query: QueryDict, *, groups: Sequence[str], now: datetime) -> View:
    """Read the view from the address; the days end today, in UTC."""
    days = next((each for each in DAYS if str(each) == query.get("days")), 30)
    group = query.get("group", "")
    metric = query.get("metric", "")
    last = now.astimezone(UTC).date()
    return View(
        first=last - timedelta(days=days - 1),
        last=last,
        days=days,
        group=group if group in groups else groups[0],
        metric=metric if metric in METRICS else "cost",
    )


def context(
    rows: Sequence[Usage], view: View, names: Mapping[int, str], *, groups: Mapping[str, str], amount: str
) -> dict[str, object]:
    """Return what the pages' templates show: filters (whose money is called `amount`), chart and tables."""
    return {
        "view": view,
        "filters": filters(view, groups=groups, amount=amount),
        "labels": labels(view),
        "series": series(rows, view, names),
        "groups": by_group(rows, names),
        "days": by_day(rows),
        "total": total(rows),
    }


def filters(view: View, *, groups: Mapping[str, str], amount: str) -> dict[str, list[Choice]]:
    """Return the links of the three filters: days, group (name to label) and metric, whose money is called `amount`."""
    return {
        "days": [
            Choice(f"{days} days", View(view.first, view.last, days, view.group, view.metric).query, days == view.days)
            for days in DAYS
        ],
        "groups": [
            Choice(label, View(view.first, view.last, view.days, name, view.metric).query, name == view.group)
            for name, label in groups.items()
        ],
        "metrics": [
            Choice(
                amount if name == "cost" else name.capitalize(),
                View(view.first, view.last, view.days, view.group, name).query,
                name == view.metric,
            )
            for name in METRICS
        ],
    }


def labels(view: View) -> list[str]:
    """Return one label for each day."""
    return [f"{view.first + timedelta(days=offset):%m-%d}" for offset in range(view.days)]


def series(rows: Iterable[Usage], view: View, names: Mapping[int, str]) -> list[tuple[str, list[int]]]:
    """Return the chart's series: one for each group, one value a day."""
    values: dict[int, list[int]] = defaultdict(lambda: [0] * view.days)
    for row in rows:
        if row.group_id is not None and row.day is not None:
            values[row.group_id][(row.day - view.first).days] += int(getattr(row, _VALUES[view.metric]))
    return [(names.get(group_id, f"deleted ({group_id})"), column) for group_id, column in sorted(values.items())]


def by_group(rows: Iterable[Usage], names: Mapping[int, str]) -> list[Row]:
    """Return one row a group, the largest amount first."""
    found: dict[int, list[Usage]] = defaultdict(list)
    for row in rows:
        if row.group_id is not None:
            found[row.group_id].append(row)
    summed = [_sum(names.get(group_id, f"deleted ({group_id})"), members) for group_id, members in found.items()]
    return sorted(summed, key=lambda row: (-row.amount_nano, row.name))


def by_day(rows: Iterable[Usage]) -> list[Row]:
    """Return one row a day that had usage, the latest first."""
    found: dict[date, list[Usage]] = defaultdict(list)
    for row in rows:
        if row.day is not None:
            found[row.day].append(row)
    return [_sum(day.isoformat(), found[day]) for day in sorted(found, reverse=True)]


def total(rows: Iterable[Usage]) -> Row:
    """Return the sum of all rows."""
    return _sum("Total", list(rows))


def group_ids(rows: Iterable[Usage]) -> set[int]:
    """Return the ids that need names."""
    return {row.group_id for row in rows if row.group_id is not None}


def csv_answer(text: str, *, name: str) -> HttpResponse:
    """Return a CSV file to download."""
    return HttpResponse(
        text, content_type="text/csv; charset=utf-8", headers={"content-disposition": f'attachment; filename="{name}"'}
    )


def _sum(name: str, rows: list[Usage]) -> Row:
    return Row(
        name=name,
        requests=sum(row.requests for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        cached_tokens=sum(row.cached_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        amount_nano=sum(row.amount_nano for row in rows),
    )
