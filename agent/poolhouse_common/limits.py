"""Holds a figure against the limits of its check: what agent and portal say alike."""

from typing import Final

from poolhouse_common.check import Check

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"


def against(figure_milli: int, *, check: Check, fail_milli: int | None, warn_milli: int | None) -> str:
    """Return OK, WARN or FAIL; a limit that is None holds nothing back."""
    if _is_beyond(figure_milli, fail_milli, check=check):
        return FAIL
    return WARN if _is_beyond(figure_milli, warn_milli, check=check) else OK


def limit_text(limit_milli: int | None, *, check: Check) -> str:
    """Return a limit for people, such as `at least 90 percent`; empty where there is none."""
    if limit_milli is None:
        return ""
    return f"{'at least' if check.is_higher_better else 'at most'} {number(limit_milli)} {check.unit}"


def number(milli: int) -> str:
    """Return thousandths as a short decimal number: three digits that count, no fewer before the point."""
    if abs(milli) >= 100_000:  # noqa: PLR2004  from 100 on without decimals
        return f"{(milli + 500) // 1000}"
    return f"{milli / 1000:.3g}"


def _is_beyond(figure: int, limit: int | None, *, check: Check) -> bool:
    if limit is None:
        return False
    return figure < limit if check.is_higher_better else figure > limit
