"""Checks receipts offline: both signatures, the charge by the price, the share; and a payout by its receipts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolhouse_common import amounts, exports, recount
from poolhouse_common.exports import Price
from poolhouse_common.recount import Verdict

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.receipts import signatures

_PRICE_FIELDS = ("prompt_nano_per_mtok", "cached_nano_per_mtok", "completion_nano_per_mtok", "request_nano")


@dataclass(slots=True)
class Checked:
    """What a set of receipts came to; `earned` is what each sound one proves (nano)."""

    receipts: int = 0
    proofs: dict[str, int] = field(default_factory=dict)
    earned: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read(paths: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    """Yield the receipts of files with one a line, as `receipts show --json` prints them. Raises ConfigError."""
    try:
        yield from exports.receipts(paths)
    except exports.BadFile as error:
        raise ConfigError("file_unreadable", str(error)) from None


def check(receipts: Iterable[Mapping[str, Any]], *, portal_key: str, prices: Mapping[int, Price] | None) -> Checked:
    """Check every receipt; the same one twice counts once."""
    checked = Checked()
    seen: dict[str, Mapping[str, Any]] = {}
    for receipt in receipts:
        try:
            attempt = str(receipt["claim"]["attempt"])
            if attempt in seen:
                if seen[attempt] != receipt:
                    checked.problems.append(f"{attempt}: there are two receipts of it that differ")
                continue
            seen[attempt] = receipt
            checked.receipts += 1
            problem = _problem(receipt, portal_key=portal_key, prices=prices)
            bill = receipt["bill"]
            proof = str(bill["proof"])
            checked.proofs[proof] = checked.proofs.get(proof, 0) + 1
            if problem:
                checked.problems.append(f"{attempt}: {problem}")
            elif bill["charge_nano"]:
                checked.earned[attempt] = int(bill["provider_nano"])
        except (KeyError, TypeError, ValueError) as error:
            checked.problems.append(f"receipt {checked.receipts}: cannot be read ({error!r})")
    return checked


def _problem(receipt: Mapping[str, Any], *, portal_key: str, prices: Mapping[int, Price] | None) -> str:
    if not signatures.is_nodes(receipt):
        return "the node's signature does not fit"
    if not signatures.is_portals(receipt, portal_key=portal_key):
        return "the portal's signature does not fit"
    bill = receipt["bill"]
    if not (bill["charge_nano"] or bill["prompt_tokens"] or bill["completion_tokens"]):
        return "it earns without a charge" if bill["provider_nano"] else ""
    if not bill["price"]:
        return "it is charged without a price"
    return _price_problem(bill, prices) or _money_problem(bill)


def _price_problem(bill: Mapping[str, Any], prices: Mapping[int, Price] | None) -> str:
    if prices is None:
        return ""
    price = prices.get(bill["price"]["id"])
    if price is None:
        return f"price {bill['price']['id']} is not among the exported prices"
    if price.model != bill["model"] or price.terms != tuple(bill["price"][name] for name in _PRICE_FIELDS):
        return f"price {bill['price']['id']} is exported with other terms"
    return ""


def _money_problem(bill: Mapping[str, Any]) -> str:
    rated = amounts.charge(
        tuple(bill["price"][name] for name in _PRICE_FIELDS),
        prompt=bill["prompt_tokens"],
        cached=bill["cached_tokens"],
        completion=bill["completion_tokens"],
    )
    expected = min(rated, bill["hold_nano"])
    if expected != bill["charge_nano"]:
        return f"charged {bill['charge_nano']} nano, comes to {expected}"
    share = 0 if bill["withheld"] else amounts.share(expected, bill["share_bps"])
    if share != bill["provider_nano"]:
        return f"earned {bill['provider_nano']} nano, comes to {share}"
    if bill["platform_nano"] != expected - share:
        return "the parts do not add up to the charge"
    return ""


def payout(path: Path, checked: Checked) -> Verdict:
    """Compute an exported payout again from sound receipts. Raises ConfigError."""
    try:
        said = exports.document(path, kind=exports.PAYOUT)
        return recount.payout(said, earned=checked.earned)
    except exports.BadFile as error:
        raise ConfigError("file_unreadable", str(error)) from None
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError("file_unreadable", f"{path}: cannot be read ({error!r})") from None


def prices(path: Path | None) -> Mapping[int, Price] | None:
    """Read exported prices. Raises ConfigError."""
    try:
        return exports.prices(path) if path is not None else None
    except exports.BadFile as error:
        raise ConfigError("file_unreadable", str(error)) from None
