"""CSV that a spreadsheet shows and never runs."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def safe_cell(value: object) -> str:
    """Return the value as text; what a spreadsheet would take for a formula gets an apostrophe, numbers do not."""
    text = str(value)
    if text.startswith(_STARTS_A_FORMULA) and not _NUMBER.match(text):
        return f"'{text}"
    return text


def csv_text(*, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a CSV table with CRLF line ends (RFC 4180), every cell made safe."""
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(header)
    writer.writerows([safe_cell(value) for value in row] for row in rows)
    return output.getvalue()
