"""How the hosted pages look: one frame, one note, plain forms."""

from dataclasses import dataclass
from html import escape

NOTE = "Simulated, no money moves."
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem;"
    "color:#1c1e21;background:#f5f6f8}"
    "main{background:#fff;border:1px solid #d9dce1;border-radius:10px;padding:1.5rem}"
    "h1{margin:0 0 .75rem;font-size:1.5rem}"
    "button,select,input{font:inherit;display:block;width:100%;box-sizing:border-box;margin:.25rem 0 .75rem;"
    "padding:.6rem;border:1px solid #b9bfc8;border-radius:8px;background:#fff}button{cursor:pointer;margin:.5rem 0}"
    "button.main{background:#17457a;border-color:#17457a;color:#fff}"
    ".note{background:#fff3cd;border-radius:8px;padding:.5rem .75rem}.bad{background:#fde2e1;border-radius:8px;"
    "padding:.5rem .75rem}dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem}dd{margin:0;text-align:right}"
    "table{width:100%;border-collapse:collapse;margin-bottom:1rem}td{padding:.25rem 0;border-bottom:1px solid #e6e8ec}"
    "td{overflow-wrap:anywhere;padding-right:.75rem}"
    "td:last-child{text-align:right;white-space:nowrap;overflow-wrap:normal;padding:0}label{font-weight:600}"
)


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML answer, or a redirect where `location` is set."""

    status: int
    html: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """One thing a visitor may do."""

    action: str
    label: str
    is_main: bool = False


def redirect(location: str) -> Page:
    """Send the visitor elsewhere."""
    return Page(303, location=location)


def page(title: str, content: str, *, status: int = 200) -> Page:
    """Frame a page."""
    html = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} (simulated)</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head>"
        f'<body><main><h1>{escape(title)}</h1><p class="note">{NOTE}</p>{content}</main></body></html>'
    )
    return Page(status, html=html)


def form(buttons: list[Button], *, fields: str = "") -> str:
    """Return a form that posts to its own page."""
    made = "".join(
        f'<button name="action" value="{one.action}"{" class=main" if one.is_main else ""}>{escape(one.label)}</button>'
        for one in buttons
    )
    return f'<form method="post">{fields}{made}</form>'


def choice(name: str, label: str, options: list[tuple[str, str]]) -> str:
    """Return a labelled list to choose from."""
    made = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options)
    return f'<label for="{name}">{escape(label)}</label><select id="{name}" name="{name}">{made}</select>'


def line(name: str, label: str, value: str = "") -> str:
    """Return a labelled line to type into."""
    return f'<label for="{name}">{escape(label)}</label><input id="{name}" name="{name}" value="{escape(value)}">'


def facts(pairs: list[tuple[str, str]]) -> str:
    """Return a list of facts."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs) + "</dl>"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return rows of text."""
    made = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{made}</table>"
