"""The template words of the pages: money, counts, times, icons, states and charts."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from django import template
from django.conf import settings
from django.forms import BoundField
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from lucide.templatetags.lucide import lucide

from portal.billing.rules import related
from portal.core import clock
from portal.core.money import nano_from_minor
from portal.web import charts, formats, movements
from portal.web.statuses import Status, status_of

register = template.Library()

_NO_DATA = format_html('<span aria-hidden="true">{}</span><span class="visually-hidden">no data</span>', "—")


@register.filter
def money(nano: int | None) -> str:
    """Write nano units with the currency's decimals."""
    return _NO_DATA if nano is None else formats.money(nano, currency=settings.CURRENCY)


@register.filter
def total(nano: int | None) -> str:
    """Write a sum of nano units: two decimals, up to six where it is less than one unit."""
    return _NO_DATA if nano is None else formats.total_money(nano, currency=settings.CURRENCY)


@register.filter
def money6(nano: int | None) -> str:
    """Write nano units with up to six decimals, for one request."""
    return _NO_DATA if nano is None else formats.exact_money(nano, currency=settings.CURRENCY)


@register.filter
def minor(amount: int | None) -> str:
    """Write minor units with the currency's decimals."""
    if amount is None:
        return _NO_DATA
    return formats.money(nano_from_minor(amount, settings.CURRENCY), currency=settings.CURRENCY)


@register.filter
def exact(nano: int | None) -> str:
    """Write nano units to the last one, at least with the currency's decimals, for auditors' tables."""
    return _NO_DATA if nano is None else formats.exact_number(nano, currency=settings.CURRENCY)


@register.filter
def tokens(number: int | None) -> str:
    """Write a count with three figures."""
    return _NO_DATA if number is None else formats.compact(number)


@register.filter
def count(number: int | None) -> str:
    """Write an exact count with separators."""
    return _NO_DATA if number is None else formats.count(number)


@register.filter
def ms(milliseconds: int | None) -> str:
    """Write a latency."""
    return _NO_DATA if milliseconds is None else formats.duration(milliseconds)


@register.filter
def gib(size_bytes: int | None) -> str:
    """Write an amount of memory."""
    return _NO_DATA if size_bytes is None else formats.gib(size_bytes)


@register.filter
def bps(basis_points: int | None) -> str:
    """Write basis points as a percentage."""
    return _NO_DATA if basis_points is None else f"{basis_points / 100:.2f}".rstrip("0").rstrip(".") + "%"


@register.filter
def ago(moment: datetime | None) -> str:
    """Write how long ago a moment is, with the exact time as title."""
    if moment is None:
        return _NO_DATA
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.astimezone(UTC).isoformat(timespec="seconds"),
        formats.stamp(moment),
        formats.ago(moment, clock.now()),
    )


@register.filter
def when(moment: datetime | None) -> str:
    """Write a moment in UTC to the minute."""
    if moment is None:
        return _NO_DATA
    utc = moment.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        utc.isoformat(timespec="seconds"),
        formats.stamp(utc),
        utc.strftime("%Y-%m-%d %H:%M"),
    )


@register.filter
def day(moment: datetime | None) -> str:
    """Write the UTC date of a moment."""
    if moment is None:
        return _NO_DATA
    utc = moment.astimezone(UTC)
    return format_html('<time datetime="{}">{}</time>', utc.date().isoformat(), utc.strftime("%Y-%m-%d"))


@register.filter
def or_dash(value: object) -> object:
    """Return the value, or the mark for no data where it is None or empty."""
    return _NO_DATA if value is None or value == "" else value


@register.filter
def parted(code: str) -> SafeString:
    """Let a line break after each colon of a code, and nowhere else in it."""
    return mark_safe(escape(code).replace(":", ":<wbr>"))  # noqa: S308  it is escaped


@register.filter
def codes(text: str) -> SafeString:
    """Show `words between backticks` as code; everything is escaped that is not markup already."""
    if isinstance(text, SafeString):
        return text
    parts = str(text).split("`")
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>" if i % 2 else "{}", part),) for i, part in enumerate(parts))
    )


@register.filter
def movement(kind: str) -> str:
    """Name a kind of ledger transaction in words."""
    return movements.named(kind)


@register.filter
def shared(kinds: Sequence[str]) -> str:
    """Write what two organizations have in common."""
    return related.in_words(kinds)


@register.filter
def status(state: str) -> Status:
    """Return how a state is shown, for <c-status>."""
    return status_of(str(state))


@register.simple_tag
@lru_cache(maxsize=512)
def icon(name: str, size: int = 16) -> SafeString:
    """Draw a lucide icon that screen readers skip."""
    attributes = {"class": "icon", "aria_hidden": "true", "focusable": "false"}
    return mark_safe(lucide(name, size=size, **attributes))  # noqa: S308  icons of the wheel, no input of ours


@register.filter
def control_kind(field: BoundField) -> str:
    """Return whether a field is one box, a group of choices or an ordinary control."""
    kind = field.widget_type
    if kind == "checkbox":
        return "box"
    return "group" if kind in {"radioselect", "checkboxselectmultiple"} else "plain"


_WRITERS: dict[str, Callable[[int], str]] = {
    "money": lambda nano: formats.total_money(nano, currency=settings.CURRENCY),
    "tokens": formats.compact,
    "count": formats.count,
}


@register.inclusion_tag("charts/bar.html")
def bar_chart(
    labels: Sequence[str], series: Sequence[tuple[str, Sequence[int]]], *, title: str, unit: str = "count"
) -> dict[str, object]:
    """Draw stacked bars: `series` is [(name, values)], one value a label; `unit` is money (nano), tokens or count."""
    write = _WRITERS[unit]
    return {
        "chart": charts.bar_chart(labels, series, write),
        "title": title,
        "names": [name for name, _ in charts.merged(series)],
    }
