"""Usage records as a file to download: streamed, so that neither side needs memory for a month of them."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Protocol

from django.http import HttpResponseBase, JsonResponse, QueryDict, StreamingHttpResponse

from portal.billing.rules.export import safe_cell
from portal.core import clock
from portal.metering.models import UsageRecord

MOST_DAYS = 92
Columns = Mapping[str, Callable[[UsageRecord], object]]


class BadDays(ValueError):
    """The days asked for cannot be exported; the message says why."""


class Records(Protocol):
    """One owner's records of some days."""

    def __call__(self, *, since: date, until: date) -> Iterable[UsageRecord]:
        """Return those that closed on the days from `since` to `until`, both included."""


class _Lines:
    """What csv writes to: hands each line back instead of keeping it."""

    def write(self, line: str) -> str:
        return line


def answer(query: QueryDict, *, records: Records, columns: Columns, kind: str, name: str) -> HttpResponseBase:
    """Answer the records of the days that the address names as a CSV or JSON file, or why not."""
    try:
        first, last = _days(query, now=clock.now())
    except BadDays as error:
        return _refused(error)
    rows, name = records(since=first, until=last), f"{name}-{first}-{last}"
    if kind == "json":
        return _file(_json(rows, columns), "application/json", f"{name}.json")
    return _file(_csv(rows, columns), "text/csv; charset=utf-8", f"{name}.csv")


def _days(query: QueryDict, *, now: datetime) -> tuple[date, date]:
    """Return the first and the last day that the address names, by default the last thirty. Raises BadDays."""
    last = _day(query, "last", now.date())
    first = _day(query, "first", last - timedelta(days=29))
    if not timedelta(0) <= last - first < timedelta(days=MOST_DAYS):
        raise BadDays(f"first must not be after last, and not {MOST_DAYS} days or more before it")
    return first, last


def _refused(error: BadDays) -> JsonResponse:
    body = {"message": f"{error}.", "type": "invalid_request_error", "param": "first", "code": "invalid_value"}
    return JsonResponse({"error": body}, status=400)


def _file(content: Iterator[str], kind: str, name: str) -> StreamingHttpResponse:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(content, content_type=kind, headers=headers)


def _csv(rows: Iterable[UsageRecord], columns: Columns) -> Iterator[str]:
    writer = csv.writer(_Lines())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([safe_cell(_plain(value(row), empty="")) for value in columns.values()])


def _json(rows: Iterable[UsageRecord], columns: Columns) -> Iterator[str]:
    opening = "["
    for row in rows:
        yield opening + "\n" + json.dumps({name: _plain(value(row), empty=None) for name, value in columns.items()})
        opening = ","
    yield "[]\n" if opening == "[" else "\n]\n"


def _plain(value: object, *, empty: object) -> object:
    if value is None or value == "":
        return empty
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, bool | int | str) else str(value)


def _day(query: QueryDict, name: str, default: date) -> date:
    text = query.get(name)
    if not text:
        return default
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadDays(f"{name} must be a day like 2026-11-30, not {text[:32]!r}") from error
