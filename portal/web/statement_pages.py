"""Statements as pages and files, the same for customers and providers."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings
from django.http import Http404, HttpResponse

from portal.billing.rules import periods
from portal.billing.rules import statements as rules
from portal.billing.rules.export import csv_text
from portal.billing.rules.periods import Period
from portal.billing.rules.statements import Content, PriceLine
from portal.billing.selectors import statements
from portal.billing.selectors.statements import Party
from portal.core.money import decimal_text
from portal.web import statement_pdf


@dataclass(frozen=True, slots=True)
class Shown:
    """One month of a party: frozen under a number, or live until the month is closed."""

    month: str
    number: str
    sha256: str
    frozen_at: datetime | None
    content: Content
    letterhead: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list of statements."""

    month: str
    number: str
    frozen_at: datetime | None
    closing_nano: int | None


def listed(party: Party, *, now: datetime) -> list[Entry]:
    """Return the party's months: the one that runs, then the frozen ones, newest first."""
    frozen = [
        Entry(
            month=f"{row.starts_at:%Y-%m}",
            number=row.number,
            frozen_at=row.frozen_at,
            closing_nano=rules.from_json(row.content).closing_nano,
        )
        for row in statements.frozen(party=party)
    ]
    known = {entry.month for entry in frozen}
    this = periods.month_of(now)
    live = [Entry(str(period), "", None, None) for period in (this, periods.month_before(this))]
    return [*(entry for entry in live if entry.month not in known), *frozen]


def find(party: Party, *, month: str, now: datetime) -> Shown:
    """Return the party's statement of a month such as `2026-11`, or of this one. Raises Http404 for any other."""
    period = _period(month) if month else periods.month_of(now)
    if period.starts_at > now:
        raise Http404("this month has not begun")
    row = next((row for row in statements.frozen(party=party) if row.starts_at == period.starts_at), None)
    if row is not None:
        return Shown(str(period), row.number, row.sha256, row.frozen_at, rules.from_json(row.content), row.letterhead)
    content = statements.content(party=party, period=period, currency=settings.CURRENCY)
    return Shown(str(period), "", "", None, content, statements.letterhead(party=party))


def as_csv(shown: Shown) -> str:
    """Return the statement's lines as CSV with full precision; the amounts add up from opening to closing."""
    content = shown.content
    sign = 1 if content.kind == "provider" else -1
    rows: list[tuple[object, ...]] = [("opening", content.starts_at, "", "", "", decimal_text(content.opening_nano))]
    rows += [
        ("usage", shown.month, line.model, line.node, line.requests, decimal_text(sign * line.amount_nano))
        for line in content.usage
    ]
    rows += [(line.kind, line.at, "", line.note, "", decimal_text(line.amount_nano)) for line in content.entries]
    rows += [
        ("price", line.effective_from, line.model, _price_text(line), line.requests, "") for line in content.prices
    ]
    rows.append(("closing", content.ends_at, "", "", "", decimal_text(content.closing_nano)))
    return csv_text(header=["line", "at_utc", "model", "detail", "requests", f"amount_{content.currency}"], rows=rows)


def _price_text(line: PriceLine) -> str:
    parts = [("prompt", line.prompt_nano), ("cached", line.cached_nano), ("completion", line.completion_nano)]
    shares = f"; share {line.share_bps} bps" if line.share_bps else ""
    per_token = ", ".join(f"{name} {decimal_text(nano)}" for name, nano in parts)
    per_request = decimal_text(line.request_nano)
    return f"version {line.label}: {per_token} per million tokens, {per_request} per request{shares}"


def as_pdf(shown: Shown) -> HttpResponse:
    """Answer the statement as a PDF; the same statement gives the same bytes, whatever has been renamed since."""
    head = statement_pdf.Head(
        sender=tuple(shown.letterhead["from"]),
        addressee=tuple(shown.letterhead["to"]),
        number=shown.number,
        month=shown.month,
        sha256=shown.sha256,
        frozen_at=shown.frozen_at,
    )
    return HttpResponse(
        statement_pdf.render(shown.content, head),
        content_type="application/pdf",
        headers={"content-disposition": f'attachment; filename="statement-{shown.number or shown.month}.pdf"'},
    )


def _period(month: str) -> Period:
    try:
        start = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    except ValueError as error:
        raise Http404("a month looks like 2026-11") from error
    return periods.month_of(start)
