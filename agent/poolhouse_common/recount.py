"""Computes statements and payouts again from exported files, to the nano, and says what differs.

`python -m poolhouse_common.recount --help`: needs nothing but Python; no database, no network, no account.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from poolhouse_common import amounts, exports
from poolhouse_common.exports import BadFile, Price, UsageRow

_MOST_SHOWN: Final = 50
_COULD_NOT_RUN: Final = 2


@dataclass(slots=True)
class Verdict:
    """What a computation came to. `problems` name each thing that differs; none means that all is equal."""

    subject: str
    rows: int = 0
    outside: int = 0
    computed: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether everything is as it was said."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return it in the shape of docs/schemas/recompute.json."""
        return {
            "subject": self.subject,
            "is_right": self.is_right,
            "rows": self.rows,
            "outside": self.outside,
            "computed": self.computed,
            "problems": self.problems,
        }


@dataclass(slots=True)
class _Line:
    requests: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    amount: int = 0

    def add(self, row: UsageRow, amount: int) -> None:
        self.requests += 1
        self.prompt += row.prompt
        self.cached += row.cached
        self.completion += row.completion
        self.amount += amount


def row_problem(row: UsageRow, prices: Mapping[int, Price]) -> str:
    """Return what is wrong with one row's money, or an empty text."""
    # Nothing is counted of an attempt that is not charged; one with tokens and without a charge is an error.
    is_counted = bool(row.cost_nano or row.prompt or row.completion)
    price = prices.get(row.price)
    if price is None:
        is_nothing = not (is_counted or row.earned_nano)
        return "" if is_nothing else f"{row.attempt}: price {row.price} is not among the exported prices"
    if price.model != row.model:
        return f"{row.attempt}: price {row.price} is {price.model}'s, not {row.model}'s"
    rated = amounts.charge(price.terms, prompt=row.prompt, cached=row.cached, completion=row.completion)
    expected = min(rated, row.held_nano) if is_counted else 0
    if expected != row.cost_nano:
        return f"{row.attempt}: costs {amounts.text(row.cost_nano)}, comes to {amounts.text(expected)}"
    if row.share_bps is not None:
        earned = 0 if row.withheld else amounts.share(expected, row.share_bps)
        if earned != row.earned_nano:
            return f"{row.attempt}: earned {amounts.text(row.earned_nano)}, comes to {amounts.text(earned)}"
    return ""


def statement(said: Mapping[str, Any], *, usage: Iterable[UsageRow], prices: Mapping[int, Price]) -> Verdict:
    """Compute a statement of a customer or a provider again. Raises KeyError, TypeError, ValueError where damaged."""
    is_provider = said["kind"] == "provider"
    verdict = Verdict(f"statement of {said['party']} from {said['starts_at']}")
    lines: dict[tuple[str, str], _Line] = defaultdict(_Line)
    seen: set[str] = set()
    for row in usage:
        if row.attempt in seen:
            verdict.problems.append(f"{row.attempt}: is there twice")
            continue
        seen.add(row.attempt)
        if not said["starts_at"] <= row.booked_at < said["ends_at"]:
            verdict.outside += 1
            continue
        verdict.rows += 1
        if problem := row_problem(row, prices):
            verdict.problems.append(problem)
        amount = row.earned_nano if is_provider else row.cost_nano
        lines[row.model, row.node if is_provider else ""].add(row, amount)
    _compare_lines(said["usage"], {key: line for key, line in lines.items() if line.amount}, verdict)
    _compare_positions(said, sum(line.amount for line in lines.values()), verdict, sign=1 if is_provider else -1)
    return verdict


def _compare_lines(said: Iterable[Mapping[str, Any]], ours: Mapping[tuple[str, str], _Line], verdict: Verdict) -> None:
    theirs = {(str(line["model"]), str(line["node"])): line for line in said}
    for key in sorted({*theirs, *ours}):
        name, line, mine = " on ".join(filter(None, key)), theirs.get(key), ours.get(key)
        if line is None or mine is None:
            side = "the usage has it, the statement not" if line is None else "the statement has it, the usage not"
            verdict.problems.append(f"{name}: {side}")
            continue
        pairs = [
            ("requests", int(line["requests"]), mine.requests),
            ("prompt tokens", int(line["prompt_tokens"]), mine.prompt),
            ("cached tokens", int(line["cached_tokens"]), mine.cached),
            ("completion tokens", int(line["completion_tokens"]), mine.completion),
        ]
        verdict.problems += [
            f"{name}: {what} {told} told, {found} found" for what, told, found in pairs if told != found
        ]
        if amounts.nano(str(line["amount"])) != mine.amount:
            verdict.problems.append(f"{name}: {line['amount']} told, comes to {amounts.text(mine.amount)}")


def _compare_positions(said: Mapping[str, Any], usage: int, verdict: Verdict, *, sign: int) -> None:
    entries = sum(amounts.nano(str(line["amount"])) for line in said["entries"])
    closing = amounts.nano(str(said["opening"])) + entries + sign * usage
    verdict.computed = {
        "usage": amounts.text(usage),
        "entries": amounts.text(entries),
        "closing": amounts.text(closing),
    }
    if amounts.nano(str(said["closing"])) != closing:
        verdict.problems.append(f"closing: {said['closing']} told, comes to {amounts.text(closing)}")


def payout(said: Mapping[str, Any], *, earned: Mapping[str, int]) -> Verdict:
    """Compute a payout again; `earned` is what is proven of each attempt (nano). Raises as `statement` does."""
    verdict = Verdict(f"payout {said['payout']} of {said['provider']}")
    total = 0
    for line in said["earnings"]:
        attempt, told = str(line["attempt"]), amounts.nano(str(line["earned"]))
        found = earned.get(attempt)
        verdict.rows += 1
        total += told
        if found is None:
            verdict.problems.append(f"{attempt}: {line['earned']} without a receipt or usage row")
        elif found != told:
            verdict.problems.append(f"{attempt}: earned {line['earned']}, proven {amounts.text(found)}")
    verdict.outside = len(earned.keys() - {str(line["attempt"]) for line in said["earnings"]})
    entries = sum(amounts.nano(str(line["amount"])) for line in said["entries"])
    sent = int(said["amount_minor"]) * amounts.nano_per_minor(str(said["currency"]))
    closing = amounts.nano(str(said["opening"])) + total + entries - sent
    verdict.computed = {
        "earned": amounts.text(total),
        "entries": amounts.text(entries),
        "paid": amounts.text(sent),
        "closing": amounts.text(closing),
    }
    if amounts.nano(str(said["closing"])) != closing:
        verdict.problems.append(f"closing: {said['closing']} told, comes to {amounts.text(closing)}")
    return verdict


def from_files(
    *, prices: Path, usage: Sequence[Path], statement_file: Path | None, payout_file: Path | None
) -> list[Verdict]:
    """Compute what the files hold; without a statement or a payout each row alone. Raises BadFile."""
    known, verdicts = exports.prices(prices), []
    currency = str(exports.document(prices, kind=exports.PRICES).get("currency", ""))
    rows = list(exports.usage(usage, currency=currency))
    wanted = ((statement_file, _statement), (payout_file, _payout))
    for path, compute in wanted:
        if path is not None:
            try:
                verdicts.append(compute(path, rows, known))
            except (KeyError, TypeError, ValueError) as error:
                raise BadFile(path, f"cannot be read ({error!r})") from error
    return verdicts or [_rows(rows, known)]


def _statement(path: Path, rows: list[UsageRow], known: Mapping[int, Price]) -> Verdict:
    return statement(exports.document(path), usage=rows, prices=known)


def _payout(path: Path, rows: list[UsageRow], known: Mapping[int, Price]) -> Verdict:
    said = exports.document(path, kind=exports.PAYOUT)
    verdict = payout(said, earned={row.attempt: row.earned_nano for row in rows})
    listed = {str(line["attempt"]) for line in said["earnings"]}
    found = (row_problem(row, known) for row in rows if row.attempt in listed)
    verdict.problems += [problem for problem in found if problem]
    return verdict


def _rows(rows: list[UsageRow], known: Mapping[int, Price]) -> Verdict:
    verdict = Verdict("usage", rows=len(rows))
    verdict.problems = [problem for row in rows if (problem := row_problem(row, known))]
    verdict.computed = {"cost": amounts.text(sum(row.cost_nano for row in rows))}
    return verdict


def told(verdict: Verdict) -> list[str]:
    """Return what people read of a verdict."""
    lines = [f"{verdict.subject}: {verdict.rows} rows, {verdict.outside} not of it"]
    lines += [f"  {name:<8} {amount}" for name, amount in verdict.computed.items()]
    lines += [f"  DIFFERS  {problem}" for problem in verdict.problems[:_MOST_SHOWN]]
    if len(verdict.problems) > _MOST_SHOWN:
        lines.append(f"  and {len(verdict.problems) - _MOST_SHOWN} more")
    return [*lines, "  equal to the nano" if verdict.is_right else "  not equal"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files to a command's parser."""
    parser.add_argument(
        "--usage", type=Path, action="append", required=True, help="usage export, CSV or JSON; repeatable"
    )
    parser.add_argument("--prices", type=Path, required=True, help="exported prices (JSON)")
    parser.add_argument("--statement", type=Path, help="the statement to compute (JSON)")
    parser.add_argument("--payout", type=Path, help="the payout to compute (JSON)")
    parser.add_argument("--json", action="store_true", help="in the shape of docs/schemas/recompute.json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command: 0 where all is equal, 1 where something differs, 2 where it could not run."""
    parser = argparse.ArgumentParser(
        prog="python -m poolhouse_common.recount",
        description="Compute a statement or a payout again from exported files.",
        epilog="example: python -m poolhouse_common.recount --usage requests.csv --prices prices.json "
        "--statement november.json",
    )
    add_arguments(parser)
    given = parser.parse_args(argv)
    try:
        verdicts = from_files(
            prices=given.prices, usage=given.usage, statement_file=given.statement, payout_file=given.payout
        )
    except BadFile as error:
        sys.stderr.write(f"failed: {error} [file_unreadable]\n")
        return _COULD_NOT_RUN
    if given.json:
        sys.stdout.write(json.dumps([one.to_json() for one in verdicts], indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(line for one in verdicts for line in told(one)) + "\n")
    return 0 if all(one.is_right for one in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
