"""A month's statement as a PDF: one design, all its lines, and the same bytes for the same statement.

Nothing in the file depends on when or where it is made: its date is that of the statement, its font is the pool's own.
"""

import logging
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

from fpdf import FPDF
from fpdf.enums import TextMode, XPos, YPos

from portal.billing.rules.statements import Content, EntryLine
from portal.core.money import decimal_text
from portal.web import movements

_Colour = tuple[int, int, int]
_FONT = "Inter"
_INK, _MUTED, _RULE, _BAND = (24, 28, 36), (110, 116, 128), (218, 221, 228), (245, 246, 248)
_ACCENT = (38, 84, 214)
_MARGIN_MM, _LINE_MM, _BOTTOM_MM = 16.0, 6.2, 18.0
_WIDTH_MM = 210.0 - 2 * _MARGIN_MM
_NOTE_CHARACTERS = 38
_CUT = "…"
_MINUS = "\N{MINUS SIGN}"
# The library tells of every table of the font that it leaves out.
logging.getLogger("fontTools").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Head:
    """What stands above the lines: who speaks, to whom, under which number."""

    sender: tuple[str, ...]
    addressee: tuple[str, ...]
    number: str
    month: str
    sha256: str
    frozen_at: datetime | None

    @property
    def pool(self) -> str:
        """The pool's name."""
        return self.sender[0]


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    width_mm: float
    is_number: bool = False


class _Sheet(FPDF):
    """A4 pages with the statement's number and the page's at the foot."""

    def __init__(self, head: Head) -> None:
        super().__init__(format="A4")
        self.head = head
        self.set_margins(_MARGIN_MM, _MARGIN_MM, _MARGIN_MM)
        self.set_auto_page_break(True, margin=_BOTTOM_MM)
        self.add_font(_FONT, "", str(files("fontpkg_inter") / "files" / "Inter[opsz,wght].ttf"))
        self.set_lang("en")
        self.set_creation_date(head.frozen_at or datetime(2000, 1, 1, tzinfo=UTC))
        self.set_title(f"Statement {head.number or head.month}")
        self.set_author(head.pool)
        self.set_creator(head.pool)
        self.set_producer("Poolhouse")

    def footer(self) -> None:
        """Write what identifies the page."""
        self.set_y(-13)
        write(self, f"{self.head.pool} · Statement {self.head.number or self.head.month}", size=8, ink=_MUTED)
        self.set_y(-13)
        write(self, f"Page {self.page_no()} of {{nb}}", size=8, ink=_MUTED, align="R")


def write(
    sheet: FPDF, text: str, *, size: float = 9.0, ink: _Colour = _INK, align: str = "L", weight: float = 0.0
) -> None:
    """Write one line over the whole width; a `weight` above 0 (mm) strengthens the letters."""
    _pen(sheet, size, ink, weight)
    sheet.cell(_WIDTH_MM, _LINE_MM, text, align=align, new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def render(content: Content, head: Head) -> bytes:
    """Return the statement as a PDF; the same content and head give the same bytes."""
    sheet = _Sheet(head)
    sheet.alias_nb_pages()
    sheet.add_page()
    _letterhead(sheet, head, content)
    _sums(sheet, content)
    _usage(sheet, content)
    _entries(sheet, content)
    _prices(sheet, content)
    _proof(sheet, content, head)
    return bytes(sheet.output())


def _letterhead(sheet: FPDF, head: Head, content: Content) -> None:
    sheet.set_fill_color(*_ACCENT)
    sheet.rect(0, 0, 210, 3, style="F")
    sheet.set_y(12)
    write(sheet, head.pool, size=17, weight=0.18)
    for line in head.sender[1:]:
        write(sheet, line, size=8.5, ink=_MUTED)
    sheet.ln(6)
    what = "Earnings statement" if content.kind == "provider" else "Usage statement"
    write(sheet, f"{what} {head.number}".strip(), size=13, weight=0.14)
    period = f"{content.starts_at[:10]} to {content.ends_at[:10]} (UTC, the last day not included)"
    write(sheet, f"{period} · {content.currency.upper()}", ink=_MUTED)
    sheet.ln(3)
    write(sheet, head.addressee[0], size=10.5, weight=0.1)
    for line in head.addressee[1:]:
        write(sheet, line, size=8.5, ink=_MUTED)
    sheet.ln(4)


def _sums(sheet: FPDF, content: Content) -> None:
    is_provider = content.kind == "provider"
    owed = "Owed to you" if is_provider else "Credit"
    usage = content.usage_nano if is_provider else -content.usage_nano
    boxes = [
        (f"{owed} at the start", content.opening_nano),
        ("Earned for usage" if is_provider else "Charged for usage", usage),
        ("All else", content.entries_nano),
        (f"{owed} at the end", content.closing_nano),
    ]
    top, width = sheet.get_y(), _WIDTH_MM / len(boxes)
    sheet.set_fill_color(*_BAND)
    sheet.rect(_MARGIN_MM, top, _WIDTH_MM, 17, style="F")
    for place, (title, nano) in enumerate(boxes):
        sheet.set_xy(_MARGIN_MM + place * width + 2, top + 2)
        _pen(sheet, 7.5, _MUTED)
        sheet.cell(width - 4, 5, title)
        sheet.set_xy(_MARGIN_MM + place * width + 2, top + 8)
        _pen(sheet, 10.5, _ACCENT if place == len(boxes) - 1 else _INK, 0.12)
        sheet.cell(width - 4, 6, _fitted(sheet, _amount(nano), width - 4))
    sheet.set_xy(_MARGIN_MM, top + 21)


def _usage(sheet: FPDF, content: Content) -> None:
    is_provider = content.kind == "provider"
    columns = [
        _Column("Model", 52 if is_provider else 70),
        *([_Column("Node", 34)] if is_provider else []),
        _Column("Requests", 18, is_number=True),
        _Column("Prompt", 20 if is_provider else 28, is_number=True),
        _Column("Completion", 22 if is_provider else 28, is_number=True),
        _Column("Earned" if is_provider else "Charged", 32 if is_provider else 34, is_number=True),
    ]
    rows = [
        [
            line.model,
            *([line.node] if is_provider else []),
            f"{line.requests:,}",
            f"{line.prompt_tokens:,}",
            f"{line.completion_tokens:,}",
            _amount(line.amount_nano),
        ]
        for line in content.usage
    ]
    _table(sheet, "Usage", columns, rows, total=_amount(content.usage_nano), empty="Nothing was used.")


def _entries(sheet: FPDF, content: Content) -> None:
    columns = [
        _Column("At (UTC)", 30),
        _Column("What", 52),
        _Column("Note", 64),
        _Column("Amount", 32, is_number=True),
    ]
    rows = [row for line in content.entries for row in _entry_rows(line)]
    _table(sheet, "All else", columns, rows, total=_amount(content.entries_nano), empty="Nothing else happened.")


def _entry_rows(line: EntryLine) -> list[list[str]]:
    """Return an entry's row, and further rows for a note that is longer than its column."""
    first, *more = textwrap.wrap(line.note, _NOTE_CHARACTERS) or [""]
    row = [line.at[:16].replace("T", " "), movements.named(line.kind), first, _amount(line.amount_nano)]
    return [row, *(["", "", part, ""] for part in more)]


def _prices(sheet: FPDF, content: Content) -> None:
    is_provider = content.kind == "provider"
    columns = [
        _Column("Model", 46),
        _Column("Version", 24),
        *([_Column("Share", 16, is_number=True)] if is_provider else []),
        _Column("Prompt", 22, is_number=True),
        _Column("Cached", 22, is_number=True),
        _Column("Completion", 26, is_number=True),
        _Column("Request", 22, is_number=True),
    ]
    rows = [
        [
            line.model,
            f"{line.label}, {line.effective_from[:10]}",
            *([f"{line.share_bps / 100:g} %"] if is_provider else []),
            *(decimal_text(nano) for nano in (line.prompt_nano, line.cached_nano, line.completion_nano)),
            decimal_text(line.request_nano),
        ]
        for line in content.prices
    ]
    if rows:
        _table(sheet, "Prices that applied, per million tokens and per request", columns, rows)


def _proof(sheet: FPDF, content: Content, head: Head) -> None:
    sheet.ln(4)
    if content.kind == "provider":
        text = f"Carried over: {decimal_text(content.dust_nano)} {content.currency.upper()} of the end balance are less"
        write(sheet, f"{text} than the smallest unit that can be sent, and stay yours.", size=8, ink=_MUTED)
    if head.sha256:
        write(sheet, f"Frozen {head.frozen_at:%Y-%m-%d %H:%M} UTC. SHA-256 {head.sha256}", size=8, ink=_MUTED)
    else:
        write(sheet, "The month is open: figures may still grow, and this copy has no number.", size=8, ink=_MUTED)
    write(sheet, "A usage statement, not a tax invoice.", size=8, ink=_MUTED)


def _table(
    sheet: FPDF,
    title: str,
    columns: Sequence[_Column],
    rows: Sequence[Sequence[str]],
    *,
    total: str = "",
    empty: str = "",
) -> None:
    if sheet.will_page_break(4 * _LINE_MM):
        sheet.add_page()
    write(sheet, title, size=10, weight=0.1)
    if not rows:
        write(sheet, empty, ink=_MUTED)
        sheet.ln(3)
        return
    _header(sheet, columns)
    for row in rows:
        if sheet.will_page_break(_LINE_MM):
            sheet.add_page()
            _header(sheet, columns)
        _row(sheet, columns, row)
    if total:
        _pen(sheet, 9, _INK, 0.1)
        sheet.cell(_WIDTH_MM, _LINE_MM, f"Together  {total}", align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    sheet.ln(3)


def _header(sheet: FPDF, columns: Sequence[_Column]) -> None:
    _pen(sheet, 7.5, _MUTED)
    for column in columns:
        sheet.cell(column.width_mm, _LINE_MM, column.title, align="R" if column.is_number else "L")
    sheet.ln(_LINE_MM)
    _rule(sheet)


def _row(sheet: FPDF, columns: Sequence[_Column], row: Sequence[str]) -> None:
    _pen(sheet, 8.5, _INK)
    for column, text in zip(columns, row, strict=True):
        shown = _fitted(sheet, text, column.width_mm - 1.5)
        sheet.cell(column.width_mm, _LINE_MM, shown, align="R" if column.is_number else "L")
    sheet.ln(_LINE_MM)
    _rule(sheet)


def _rule(sheet: FPDF) -> None:
    sheet.set_draw_color(*_RULE)
    sheet.set_line_width(0.1)
    sheet.line(_MARGIN_MM, sheet.get_y(), _MARGIN_MM + _WIDTH_MM, sheet.get_y())


def _pen(sheet: FPDF, size: float, ink: _Colour, weight: float = 0.0) -> None:
    sheet.set_font(_FONT, "", size)
    sheet.set_text_color(*ink)
    sheet.text_mode = TextMode.FILL_STROKE if weight else TextMode.FILL
    if weight:
        sheet.set_draw_color(*ink)
        sheet.set_line_width(weight)


def _fitted(sheet: FPDF, text: str, width_mm: float) -> str:
    """Cut a text that is too wide, in the middle, so that both ends of an id stay."""
    if sheet.get_string_width(text) <= width_mm:
        return text
    keep = len(text)
    while keep > 2 and sheet.get_string_width(text[: keep // 2] + _CUT + text[-(keep // 2) :]) > width_mm:  # noqa: PLR2004  one letter at each end
        keep -= 1
    return text[: keep // 2] + _CUT + text[-(keep // 2) :]


def _amount(nano: int) -> str:
    """Return the exact amount with separators and a true minus."""
    text = decimal_text(abs(nano))
    whole, _, fraction = text.partition(".")
    shown = f"{int(whole):,}.{fraction.ljust(2, '0')}"
    return f"{_MINUS}{shown}" if nano < 0 else shown
