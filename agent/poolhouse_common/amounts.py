"""Amounts: integers of nano units and decimal texts of the currency's unit, and what a request costs and earns.

The pool books by these rules, and whoever checks its books offline computes by the same ones.
"""

import re
from typing import Final

NANO: Final = 1_000_000_000
MTOK: Final = 1_000_000
BPS: Final = 10_000
_DIGITS: Final = 9
_AMOUNT: Final = re.compile(r"(-)?([0-9]{1,10})(?:\.([0-9]{1,9}))?\Z")
# ISO 4217 exponents that differ from two, as Stripe charges them.
_DECIMALS: Final = {
    **dict.fromkeys(
        ["bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf"],
        0,
    ),
    **dict.fromkeys(["bhd", "jod", "kwd", "omr", "tnd"], 3),
}


def nano(text: str) -> int:
    """Return the nano units of a decimal text such as `0.25`. Raises ValueError for anything else."""
    found = _AMOUNT.match(text.strip())
    if found is None:
        raise ValueError(f"not an amount of money: {text!r}")
    sign, whole, fraction = found.groups(default="")
    value = int(whole) * NANO + int(fraction.ljust(_DIGITS, "0"))
    return -value if sign else value


def text(nano_units: int) -> str:
    """Return the decimal text without trailing zeros."""
    sign, magnitude = ("-", -nano_units) if nano_units < 0 else ("", nano_units)
    whole, rest = divmod(magnitude, NANO)
    fraction = f"{rest:09d}".rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def exponent(currency: str) -> int:
    """Return how many decimals the currency's minor unit has (2 for usd, 0 for jpy, 3 for kwd)."""
    return _DECIMALS.get(currency.lower(), 2)


def nano_per_minor(currency: str) -> int:
    """Return how many nano units one minor unit of the currency holds."""
    return int(10 ** (_DIGITS - exponent(currency)))


def charge(price: tuple[int, int, int, int], *, prompt: int, cached: int, completion: int) -> int:
    """Return what a request costs in nano, rounded half up once; `price` is prompt, cached and completion per million
    tokens, and the request itself. Raises ValueError for impossible counts."""
    require_counts(prompt=prompt, cached=cached, completion=completion)
    per_prompt, per_cached, per_completion, per_request = price
    millionths = (prompt - cached) * per_prompt + cached * per_cached + completion * per_completion
    return per_request + (millionths + MTOK // 2) // MTOK


def require_counts(*, prompt: int, cached: int, completion: int) -> None:
    """Raise ValueError for impossible counts."""
    if completion < 0 or not 0 <= cached <= prompt:
        raise ValueError(f"cannot rate prompt={prompt} cached={cached} completion={completion}")


def share(charged: int, share_bps: int) -> int:
    """Return the provider's share of a charge, floored. Raises ValueError for a share that is none."""
    if charged < 0 or not 0 <= share_bps <= BPS:
        raise ValueError(f"cannot split {charged} by {share_bps} basis points")
    return charged * share_bps // BPS
