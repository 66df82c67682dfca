"""What the addresses of the ledger's pages and files say, read in one way."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, StreamingHttpResponse

from portal.billing.rules.export import safe_cell
from portal.core.errors import InvalidValue

PAGE = 50
_BIGINT_BITS = 63
_Number = TypeVar("_Number", int, UUID)


def day(request: HttpRequest, name: str) -> date | None:
    """Return a day of the address, or None where it has none. Raises InvalidValue."""
    text = request.GET.get(name, "").strip()
    if not text:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue(f"{name} must be a day like 2026-11-30", param=name) from error
    if found == date.max:
        raise InvalidValue(f"{name} is beyond the calendar", param=name)
    return found


def moment(request: HttpRequest, name: str, *, default: datetime) -> datetime:
    """Return a moment of the address, UTC where it names no zone: a day means its beginning. Raises InvalidValue."""
    text = request.GET.get(name, "").strip()
    if not text:
        return default
    try:
        return _utc(text)
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"{name} must be a moment like 2026-11-30T12:00", param=name) from error


def word(request: HttpRequest, name: str) -> str:
    """Return a word of the address, or an empty text; the database takes no NUL."""
    return request.GET.get(name, "").replace("\0", "").strip()[:160]


def place_of_transfer(request: HttpRequest) -> tuple[datetime, int] | None:
    """Return where a page of movements goes on. Raises Http404."""
    return _place(request, _bigint)


def place_of_tx(request: HttpRequest) -> tuple[datetime, UUID] | None:
    """Return where a page of the journal goes on. Raises Http404."""
    return _place(request, UUID)


def _place(request: HttpRequest, number: Callable[[str], _Number]) -> tuple[datetime, _Number] | None:
    text = request.GET.get("before", "")
    if not text:
        return None
    at, _, name = text.partition("_")
    try:
        return _utc(at), number(name)
    except (ValueError, OverflowError) as error:
        raise Http404("there is no such page") from error


def _bigint(text: str) -> int:
    number = int(text)
    if number.bit_length() > _BIGINT_BITS:
        raise ValueError(f"{text} is no row's number")
    return number


def _utc(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def query(request: HttpRequest, *names: str, **more: str) -> str:
    """Return the address's query with these names as they are, and `more`; empty where nothing is left."""
    kept = {name: request.GET[name] for name in names if request.GET.get(name)} | more
    return f"?{urlencode(kept)}" if kept else ""


class _Lines:
    """What csv writes to: hands each line back instead of keeping it."""

    def write(self, line: str) -> str:
        return line


def csv_file(*, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> StreamingHttpResponse:
    """Answer a CSV file line by line, every cell made safe, so that neither side needs memory for it."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(_csv(header, rows), content_type="text/csv; charset=utf-8", headers=headers)


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    writer = csv.writer(_Lines())
    yield writer.writerow(header)
    for row in rows:
        yield writer.writerow([safe_cell(value) for value in row])
