"""Amounts as people write them: `2h30m`, `50GB`, `64MiB`."""

import re
from collections.abc import Mapping

_PART = re.compile(r"(\d{1,6})([dhms])")
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*([A-Za-z]{1,3})?")
_SECONDS: Mapping[str, int] = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BYTES: Mapping[str, int] = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}  # fmt: skip


def duration_s(text: str) -> int:
    """Read `2h30m` as seconds. Raises ValueError."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text[:40]!r} is no duration; write one such as 45m, 2h30m or 3d")
    return sum(int(number) * _SECONDS[unit] for number, unit in parts)


def size_bytes(text: str) -> int:
    """Read `50GB` or `64MiB` as bytes. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    unit = (found[2] or "").upper() if found else "?"
    if found is None or unit not in _BYTES:
        raise ValueError(f"{text[:40]!r} is no size; write one such as 500MB, 50GB or 64MiB")
    whole, _, fraction = found[1].partition(".")
    per_digit: int = 10 ** len(fraction)
    return int(whole + fraction) * _BYTES[unit] // per_digit


def size_text(count: int) -> str:
    """Bytes as people read them: `1.5 GB`."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            tenths = count * 10 // size
            return f"{tenths // 10}.{tenths % 10} {unit}" if tenths % 10 else f"{tenths // 10} {unit}"
    return f"{count} B"
