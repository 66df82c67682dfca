"""`receipts`: what this node was told of each attempt it served, and whether that is right to the nano."""

import argparse
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from poolhouse_common import amounts, recount
from poolhouse_common.recount import Verdict

from poolhouse_agent import config, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.receipts import verify as checking
from poolhouse_agent.receipts.book import Book
from poolhouse_agent.receipts.verify import Checked
from poolhouse_agent.state import State

_USUALLY = 20
_MOST_SHOWN = 50


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("receipts", help="receipts of what this node served: show them, check them offline")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    show = verbs.add_parser(
        "show",
        help="print the receipts on this machine",
        epilog="example: poolhouse-agent receipts show --all --json > receipts.jsonl",
    )
    show.add_argument("--last", type=int, default=_USUALLY, metavar="N", help=f"the newest N ({_USUALLY})")
    show.add_argument("--all", action="store_true", help="all of them, the oldest first")
    show.add_argument("--json", action="store_true", help="one a line, in the shape of docs/schemas/receipt.json")
    show.set_defaults(run=run_show)
    verify = verbs.add_parser(
        "verify",
        help="check signatures, charges and shares, and a payout by its receipts; needs no network",
        epilog="example: poolhouse-agent receipts verify receipts.jsonl --prices prices.json --payout payout.json",
    )
    verify.add_argument("files", type=Path, nargs="+", metavar="FILE", help="receipts, one a line")
    verify.add_argument("--prices", type=Path, help="the pool's exported prices")
    verify.add_argument("--payout", type=Path, help="an exported payout, to be computed again")
    verify.add_argument("--portal-key", metavar="KEY", help="the pool's key in base64 (the one this node has pinned)")
    options.add_json(verify, schema="receipts-verify.json")
    verify.set_defaults(run=run_verify)


def run_show(arguments: argparse.Namespace) -> int:
    """Print receipts. Raises ConfigError."""
    book = _book(arguments)
    rows = book.stored() if arguments.all else deque(book.stored(), maxlen=max(arguments.last, 0))
    if arguments.json:
        for receipt in rows:
            terminal.say_line(receipt)
        return 0
    shown = list(rows)
    if not shown:
        terminal.say("no receipts yet")
    else:
        terminal.table([_HEAD, *(_row(receipt) for receipt in shown)])
    return 0


_HEAD = ("ended", "attempt", "model", "outcome", "in", "out", "charged", "earned", "bytes")


def _row(receipt: Mapping[str, Any]) -> Sequence[object]:
    bill, claim = receipt["bill"], receipt["claim"]
    return (
        bill["closed_at"][:19],
        claim["attempt"],
        bill["model"],
        bill["outcome"],
        bill["prompt_tokens"],
        bill["completion_tokens"],
        amounts.text(bill["charge_nano"]),
        f"{amounts.text(bill['provider_nano'])} {bill['currency']}",
        f"{claim['answer_bytes']} {bill['proof']}",
    )


def run_verify(arguments: argparse.Namespace) -> int:
    """Check receipts: 0 where all is right, 1 where anything is not. Raises ConfigError."""
    key = arguments.portal_key or _book(arguments).portal_key()
    if not key:
        raise ConfigError("receipts_key_unknown", "no key of the pool is pinned here and none was given")
    prices = checking.prices(arguments.prices)
    checked = checking.check(checking.read(arguments.files), portal_key=key, prices=prices)
    verdict = checking.payout(arguments.payout, checked) if arguments.payout else None
    is_right = not checked.problems and (verdict is None or verdict.is_right)
    if arguments.json:
        terminal.say_json(_as_json(checked, verdict, is_right=is_right))
    else:
        for line in _lines(checked, verdict):
            terminal.say(line)
    return 0 if is_right else 1


def _lines(checked: Checked, verdict: Verdict | None) -> Iterator[str]:
    proofs = ", ".join(f"{count} {name}" for name, count in sorted(checked.proofs.items()))
    yield f"{checked.receipts} receipts ({proofs or 'none'}), {amounts.text(sum(checked.earned.values()))} earned"
    yield from (f"  WRONG  {problem}" for problem in checked.problems[:_MOST_SHOWN])
    if len(checked.problems) > _MOST_SHOWN:
        yield f"  and {len(checked.problems) - _MOST_SHOWN} more"
    if verdict is not None:
        yield from recount.told(verdict)
    elif not checked.problems:
        yield "both signatures, every charge and every share are right"


def _as_json(checked: Checked, verdict: Verdict | None, *, is_right: bool) -> dict[str, Any]:
    return {
        "is_right": is_right,
        "receipts": checked.receipts,
        "proofs": checked.proofs,
        "earned": amounts.text(sum(checked.earned.values())),
        "problems": checked.problems,
        "payout": verdict.to_json() if verdict is not None else None,
    }


def _book(arguments: argparse.Namespace) -> Book:
    return Book(State(arguments.state).receipts, most_bytes=config.Config().receipts_bytes)
