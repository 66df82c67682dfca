"""How numbers, money and times are written on pages. Unknown is an em dash, never a zero."""

from datetime import UTC, datetime

from portal.core.money import NANO_PER_UNIT, exponent

UNKNOWN = "—"
_MINUS = "\N{MINUS SIGN}"
_SYMBOLS = {"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥"}
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_SECOND_MS = 1000
_COMPACT = [(10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")]


def money(nano: int | None, *, currency: str, places: int | None = None) -> str:
    """Write an amount of nano units with `places` decimals (else the currency's own), half up, with a true minus."""
    if nano is None:
        return UNKNOWN
    places = exponent(currency) if places is None else places
    step = NANO_PER_UNIT // 10**places
    steps = (abs(nano) + step // 2) // step
    whole, rest = divmod(steps, 10**places)
    number = f"{whole:,}.{rest:0{places}d}" if places else f"{whole:,}"
    sign = _MINUS if nano < 0 and steps else ""
    symbol = _SYMBOLS.get(currency.lower())
    return f"{sign}{symbol}{number}" if symbol else f"{sign}{number} {currency.upper()}"


def exact_money(nano: int | None, *, currency: str) -> str:
    """Write one request's cost: up to six decimals, at least the currency's own, `<` before what is smaller still."""
    if nano is None:
        return UNKNOWN
    if 0 < nano < NANO_PER_UNIT // 10**6:
        return "<" + money(NANO_PER_UNIT // 10**6, currency=currency, places=6)
    text = money(nano, currency=currency, places=6)
    number, space, code = text.partition(" ")
    head, _, tail = number.rpartition(".")
    tail = tail.rstrip("0").ljust(exponent(currency), "0")
    return f"{head}.{tail}{space}{code}" if tail else f"{head}{space}{code}"


def total_money(nano: int | None, *, currency: str) -> str:
    """Write a sum: the currency's decimals from one unit on, up to six below, so that a little is not nothing."""
    if nano is not None and 0 < abs(nano) < NANO_PER_UNIT:
        return exact_money(nano, currency=currency)
    return money(nano, currency=currency)


def exact_number(nano: int | None, *, currency: str) -> str:
    """Write an amount for auditors: every nano that there is, at least the currency's decimals, no symbol."""
    if nano is None:
        return UNKNOWN
    whole, rest = divmod(abs(nano), NANO_PER_UNIT)
    tail = f"{rest:09d}".rstrip("0").ljust(exponent(currency), "0")
    return f"{_MINUS if nano < 0 else ''}{whole:,}{'.' if tail else ''}{tail}"


def compact(number: int | None) -> str:
    """Write a count with three figures: 812k, 21.4M."""
    if number is None:
        return UNKNOWN
    for size, letter in _COMPACT:
        if abs(number) >= size * 0.9995:
            return f"{_three_figures(number / size)}{letter}"
    return str(number)


def _three_figures(value: float) -> str:
    for limit, places in ((9.995, 2), (99.95, 1)):
        if abs(value) < limit:
            return f"{value:.{places}f}".rstrip("0").rstrip(".")
    return f"{value:.0f}"


def count(number: int | None) -> str:
    """Write an exact count with separators."""
    return UNKNOWN if number is None else f"{number:,}"


def duration(milliseconds: int | None) -> str:
    """Write a latency: 218 ms below a second, else 1.24 s."""
    if milliseconds is None:
        return UNKNOWN
    return f"{milliseconds} ms" if milliseconds < _SECOND_MS else f"{milliseconds / _SECOND_MS:.2f} s"


def gib(size_bytes: int | None) -> str:
    """Write an amount of memory in GiB."""
    return UNKNOWN if size_bytes is None else f"{size_bytes / 2**30:.0f} GiB"


def percent(part: int | None, whole: int | None) -> str:
    """Write a share with one decimal."""
    return UNKNOWN if part is None or not whole else f"{100 * part / whole:.1f}%"


def ago(moment: datetime, now: datetime) -> str:
    """Write how long ago (or until when) a moment is, below a day; else its date."""
    seconds = round((now - moment).total_seconds())
    span = abs(seconds)
    if span >= _DAY:
        return moment.astimezone(UTC).strftime("%Y-%m-%d")
    if span < _MINUTE:
        words = f"{span} s"
    elif span < _HOUR:
        words = f"{span // _MINUTE} min"
    else:
        words = f"{span // _HOUR} h"
    return f"{words} ago" if seconds >= 0 else f"in {words}"


def stamp(moment: datetime) -> str:
    """Write a moment in UTC to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
