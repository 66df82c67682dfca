"""Usage records as a file to download: streamed, so that neither side needs memory for a month of them."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.http import HttpResponseBase, JsonResponse, QueryDict, StreamingHttpResponse

from portal.billing.rules.export import safe_cell
from portal.metering.models import UsageRecord

MOST_DAYS = 92
FORMATS = ("csv", "json")
Columns = Mapping[str, Callable[[UsageRecord], object]]


class BadDays(ValueError):
    """The days asked for cannot be exported; the message says why."""


@dataclass(frozen=True, slots=True)
class Days:
    """The first and the last day (UTC), both included."""

    first: date
    last: date


class _Lines:
    """What csv writes to: hands each line back instead of keeping it."""

    def write(self, line: str) -> str:
        return line


def read_days(query: QueryDict, *, now: datetime) -> Days:
    """Return the days that the address names: `first` and `last`, by default the last thirty. Raises BadDays."""
    last = _day(query, "last", now.date())
    first = _day(query, "first", last - timedelta(days=29))
    if not timedelta(0) <= last - first < timedelta(days=MOST_DAYS):
        raise BadDays(f"first must not be after last, and not {MOST_DAYS} days or more before it")
    return Days(first, last)


def answer(rows: Iterable[UsageRecord], columns: Columns, *, kind: str, name: str) -> HttpResponseBase:
    """Return the records as a CSV or JSON file."""
    if kind == "json":
        return _file(_json(rows, columns), "application/json", f"{name}.json")
    return _file(_csv(rows, columns), "text/csv; charset=utf-8", f"{name}.csv")


def refused(error: BadDays) -> JsonResponse:
    """Return 400 in the shape of every other error."""
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
