"""A credit note as a PDF: made of nothing but its frozen content, so the same note always gives the same bytes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files

from fpdf import FPDF
from fpdf.enums import XPos, YPos

_FONT = "Inter"
_INK, _MUTED, _RULE = (24, 28, 36), (110, 116, 128), (218, 221, 228)
_MARGIN_MM, _LINE_MM = 20.0, 5.6
_WIDTH_MM = 210.0 - 2 * _MARGIN_MM

Plain = Mapping[str, object]


def render(content: Plain, *, sha256: str) -> bytes:
    """Return the PDF of a credit note's content."""
    sheet = _sheet(content)
    _line(sheet, str(content["title"]), size=15)
    _line(sheet, f"Number {content['number']}, issued on {content['issued_on']}", ink=_MUTED)
    if content["corrects"]:
        _line(sheet, f"Corrects {content['corrects']}", ink=_MUTED)
    sheet.ln(5)
    _parties(sheet, content)
    sheet.ln(5)
    _supply(sheet, content)
    sheet.ln(3)
    _amounts(sheet, content)
    sheet.ln(4)
    _small_print(sheet, content, sha256)
    return bytes(sheet.output())


def _sheet(content: Plain) -> FPDF:
    sheet = FPDF(format="A4")
    sheet.set_margins(_MARGIN_MM, _MARGIN_MM, _MARGIN_MM)
    sheet.add_font(_FONT, "", str(files("fontpkg_inter") / "files" / "Inter[opsz,wght].ttf"))
    sheet.set_lang("en")
    sheet.set_creation_date(datetime.fromisoformat(str(content["issued_on"])).replace(tzinfo=UTC))
    sheet.set_title(f"{content['title']} {content['number']}")
    sheet.set_author(_of(content, "issuer", "name"))
    sheet.set_producer("Poolhouse")
    sheet.add_page()
    return sheet


def _parties(sheet: FPDF, content: Plain) -> None:
    top, half = sheet.get_y(), _WIDTH_MM / 2
    bottoms = []
    for place, (title, who) in enumerate((("Supplier", "supplier"), ("Recipient and issuer", "issuer"))):
        lines = [
            _of(content, who, "name"),
            *_of(content, who, "address").splitlines(),
            _of(content, who, "country"),
            f"Tax number {_of(content, who, 'tax_id')}" if _of(content, who, "tax_id") else "",
        ]
        sheet.set_y(top)
        _column(sheet, [title, *(line for line in lines if line)], _MARGIN_MM + place * half, half - 4)
        bottoms.append(sheet.get_y())
    sheet.set_y(max(bottoms))


def _column(sheet: FPDF, lines: Sequence[str], left_mm: float, width_mm: float) -> None:
    for place, line in enumerate(lines):
        sheet.set_x(left_mm)
        _pen(sheet, 8.0 if place == 0 else 9.5, _MUTED if place == 0 else _INK)
        sheet.multi_cell(width_mm, _LINE_MM, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def _supply(sheet: FPDF, content: Plain) -> None:
    period = f"{str(content['period_start'])[:16]} to {str(content['period_end'])[:16]} UTC".replace("T", " ")
    _line(sheet, f"{content['supply']}, {period}")
    _line(sheet, f"Payout {content['payout']} {content['transfer']}".strip(), ink=_MUTED)


def _amounts(sheet: FPDF, content: Plain) -> None:
    currency = str(content["currency"]).upper()
    rows = [
        ("Net", content["net"]),
        (f"VAT {content['vat_rate_percent']} %", content["vat"]),
        ("Gross", content["gross"]),
    ]
    if content["fee_withheld"] not in {"0", "0.00", "0.000"}:
        rows.append(("Fee of the payout, borne by the supplier", f"-{content['fee_withheld']}"))
    rows.append(("Returned" if content["corrects"] else "Paid", content["paid"]))
    for name, amount in rows:
        _pen(sheet, 10, _INK)
        sheet.cell(_WIDTH_MM - 50, _LINE_MM + 1, str(name))
        sheet.cell(50, _LINE_MM + 1, f"{amount} {currency}", align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        sheet.set_draw_color(*_RULE)
        sheet.line(_MARGIN_MM, sheet.get_y(), _MARGIN_MM + _WIDTH_MM, sheet.get_y())


def _small_print(sheet: FPDF, content: Plain, sha256: str) -> None:
    if content["sentence"]:
        _line(sheet, str(content["sentence"]))
    agreed_on = _of(content, "supplier", "consented_at")[:10]
    consent = f"Self-billing: written by the recipient with the supplier's consent of {agreed_on}"
    version = _of(content, "supplier", "consent_version")
    _line(sheet, f"{consent}{f' (agreement {version})' if version else ''}.", size=8, ink=_MUTED)
    _line(sheet, f"SHA-256 of the content {sha256}", size=7, ink=_MUTED)


def _line(sheet: FPDF, text: str, *, size: float = 9.5, ink: tuple[int, int, int] = _INK) -> None:
    _pen(sheet, size, ink)
    sheet.multi_cell(_WIDTH_MM, max(_LINE_MM, size * 0.5), text, new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def _pen(sheet: FPDF, size: float, ink: tuple[int, int, int]) -> None:
    sheet.set_font(_FONT, "", size)
    sheet.set_text_color(*ink)


def _of(content: Plain, who: str, name: str) -> str:
    party = content[who]
    return str(party.get(name, "")) if isinstance(party, Mapping) else ""
