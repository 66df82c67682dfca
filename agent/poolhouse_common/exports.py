"""Reads the files that a pool and its nodes hand out for recomputing: usage, prices, statements, payouts, receipts."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolhouse_common import amounts

PRICES = "poolhouse-prices"
PAYOUT = "poolhouse-payout"
FORMAT = 1


class BadFile(Exception):
    """A file cannot be read or is not what it should be."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


@dataclass(frozen=True, slots=True)
class Price:
    """One price version: whose model, and the four prices in nano (prompt, cached, completion, request)."""

    model: str
    terms: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One attempt of a usage export. A customer's row has a cost, a provider's an earning as well (nano)."""

    attempt: str
    model: str
    node: str
    price: int
    prompt: int
    cached: int
    completion: int
    held_nano: int
    cost_nano: int
    booked_at: str
    share_bps: int | None = None
    earned_nano: int = 0
    withheld: str = ""


def document(path: Path, *, kind: str = "") -> dict[str, Any]:
    """Return a JSON document. Raises BadFile."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(path, error.strerror or "cannot be read") from error
    except (ValueError, RecursionError) as error:
        raise BadFile(path, f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise BadFile(path, "is not one JSON object")
    if kind and (value.get("document") != kind or value.get("format") != FORMAT):
        raise BadFile(path, f"is not a {kind} document of format {FORMAT}")
    return value


def prices(path: Path) -> dict[int, Price]:
    """Return exported price versions by their number. Raises BadFile."""
    rows = document(path, kind=PRICES).get("prices")
    try:
        return {int(row["price"]): _price(row) for row in rows or ()}
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(path, f"has a price that cannot be read ({error})") from error


def _price(row: Mapping[str, Any]) -> Price:
    names = ("prompt_per_mtok", "cached_per_mtok", "completion_per_mtok", "per_request")
    prompt, cached, completion, request = (amounts.nano(str(row[name])) for name in names)
    return Price(str(row["model"]), (prompt, cached, completion, request))


def usage(paths: Sequence[Path], *, currency: str) -> Iterator[UsageRow]:
    """Yield the rows of CSV or JSON usage exports. Raises BadFile."""
    for path in paths:
        for number, row in enumerate(_rows(path), start=1):
            try:
                yield _usage(row, currency)
            except (KeyError, TypeError, ValueError) as error:
                raise BadFile(path, f"row {number} cannot be read ({error!r})") from error


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        if path.suffix == ".json":
            yield from json.loads(path.read_text(encoding="utf-8"))
            return
        with path.open(encoding="utf-8", newline="") as lines:
            yield from csv.DictReader(lines)
    except OSError as error:
        raise BadFile(path, error.strerror or "cannot be read") from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise BadFile(path, f"is neither CSV nor JSON ({error})") from error


def receipts(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the receipts of files with one a line, as `receipts show --json` prints them. Raises BadFile."""
    for path in paths:
        try:
            with path.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield _receipt(path, number, line)
        except OSError as error:
            raise BadFile(path, error.strerror or "cannot be read") from error
        except UnicodeDecodeError as error:
            raise BadFile(path, f"is not text ({error})") from error


def _receipt(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadFile(path, f"line {number} is not JSON") from error
    if not isinstance(value, dict):
        raise BadFile(path, f"line {number} is not a JSON object")
    return value


def _usage(row: Mapping[str, Any], currency: str) -> UsageRow:
    is_providers = f"earned_{currency}" in row
    cost = row[f"charged_{currency}" if is_providers else f"cost_{currency}"]
    return UsageRow(
        attempt=f"{row['request_id']}/{row['attempt']}",
        model=str(row["model"]),
        node=str(row.get("node_id") or ""),
        price=int(row["price"]),
        prompt=int(row["prompt_tokens"]),
        cached=int(row["cached_tokens"]),
        completion=int(row["completion_tokens"]),
        held_nano=amounts.nano(str(row[f"held_{currency}"])),
        cost_nano=amounts.nano(str(cost)),
        booked_at=str(row.get("booked_at") or ""),
        share_bps=int(row["share_bps"]) if is_providers else None,
        earned_nano=amounts.nano(str(row[f"earned_{currency}"] or "0")) if is_providers else 0,
        withheld=str(row.get("withheld") or ""),
    )
