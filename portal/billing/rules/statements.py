"""Statements: the shape of their content, its canonical form and the proof that its lines add up."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from portal.core.money import decimal_text, nano_from_text, nano_per_minor


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What one model (for a provider: on one node) was used for; `amount_nano` is charged or earned."""

    model: str
    node: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    amount_nano: int


@dataclass(frozen=True, slots=True)
class EntryLine:
    """One other event that moved the party's position; positive is in the party's favour."""

    at: str
    kind: str
    tx: str
    note: str
    amount_nano: int


@dataclass(frozen=True, slots=True)
class PriceLine:
    """One version of a model's price by which requests were charged: per million tokens and per request.

    `share_bps` is the provider's part of it, 0 on a customer's statement. `scope` is whose price it is: `public`, `own`
    (agreed with the customer) or `private` (of a private node).
    """

    model: str
    version: int
    effective_from: str
    requests: int
    share_bps: int
    prompt_nano: int
    cached_nano: int
    completion_nano: int
    request_nano: int
    scope: str = "public"

    @property
    def label(self) -> str:
        """How the version is named to whoever pays or earns by it."""
        return str(self.version) if self.scope == "public" else f"{self.scope} {self.version}"


@dataclass(frozen=True, slots=True)
class Content:
    """All that a statement says. A position is what the pool owes the party, less what the party owes the pool."""

    kind: str
    party: str
    currency: str
    starts_at: str
    ends_at: str
    opening_nano: int
    closing_nano: int
    usage: tuple[UsageLine, ...]
    entries: tuple[EntryLine, ...]
    prices: tuple[PriceLine, ...] = ()

    @property
    def usage_nano(self) -> int:
        """What was charged (customer) or earned (provider) for usage."""
        return sum(line.amount_nano for line in self.usage)

    @property
    def entries_nano(self) -> int:
        """What all other events came to."""
        return sum(line.amount_nano for line in self.entries)

    @property
    def dust_nano(self) -> int:
        """What of the closing position is less than the smallest unit of the currency: it is carried over."""
        step = nano_per_minor(self.currency)
        return self.closing_nano % step if self.closing_nano >= 0 else -(-self.closing_nano % step)

    @property
    def gap_nano(self) -> int:
        """By how much the lines miss the closing position; 0 in every sound statement."""
        usage = self.usage_nano if self.kind == "provider" else -self.usage_nano
        return self.opening_nano + self.entries_nano + usage - self.closing_nano


def to_json(content: Content) -> dict[str, object]:
    """Return the content with decimal strings in place of nano units."""
    plain = asdict(content)
    for name in ("opening", "closing"):
        plain[name] = decimal_text(plain.pop(f"{name}_nano"))
    for name in ("usage", "entries"):
        plain[name] = [_with_amount(line) for line in plain[name]]
    plain["prices"] = [_with_prices(line) for line in plain["prices"]]
    plain["dust"] = decimal_text(content.dust_nano)
    plain["totals"] = {"usage": decimal_text(content.usage_nano), "entries": decimal_text(content.entries_nano)}
    return plain


def from_json(plain: Mapping[str, object]) -> Content:
    """Read a statement's stored content back. Raises KeyError, TypeError or ValueError where it is damaged."""
    return Content(
        kind=str(plain["kind"]),
        party=str(plain["party"]),
        currency=str(plain["currency"]),
        starts_at=str(plain["starts_at"]),
        ends_at=str(plain["ends_at"]),
        opening_nano=nano_from_text(str(plain["opening"])),
        closing_nano=nano_from_text(str(plain["closing"])),
        usage=tuple(_usage_line(line) for line in _lines(plain["usage"])),
        entries=tuple(_entry_line(line) for line in _lines(plain["entries"])),
        prices=tuple(_price_line(line) for line in _lines(plain["prices"])),
    )


def canonical(plain: Mapping[str, object]) -> bytes:
    """Return the one byte form of the content: sorted keys, no spaces, UTF-8."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(plain: Mapping[str, object]) -> str:
    """Return the hex SHA-256 over the canonical form."""
    return hashlib.sha256(canonical(plain)).hexdigest()


def number(*, kind: str, month: str, sequence: int) -> str:
    """Return a statement's number, such as `C-2026-11-0007`."""
    return f"{kind[0].upper()}-{month}-{sequence:04d}"


def _with_amount(line: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in line.items() if key != "amount_nano"} | {
        "amount": decimal_text(int(str(line["amount_nano"])))
    }


_PRICED = ("prompt", "cached", "completion", "request")


def _with_prices(line: Mapping[str, object]) -> dict[str, object]:
    plain = {key: value for key, value in line.items() if not key.endswith("_nano")}
    return plain | {name: decimal_text(int(str(line[f"{name}_nano"]))) for name in _PRICED}


def _price_line(line: Mapping[str, object]) -> PriceLine:
    return PriceLine(
        model=str(line["model"]),
        version=int(str(line["version"])),
        effective_from=str(line["effective_from"]),
        requests=int(str(line["requests"])),
        share_bps=int(str(line["share_bps"])),
        scope=str(line.get("scope", "public")),
        **{f"{name}_nano": nano_from_text(str(line[name])) for name in _PRICED},
    )


def _lines(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, list) or not all(isinstance(line, Mapping) for line in value):
        raise TypeError("a statement's lines are a list of objects")
    return value


def _usage_line(line: Mapping[str, object]) -> UsageLine:
    return UsageLine(
        model=str(line["model"]),
        node=str(line["node"]),
        requests=int(str(line["requests"])),
        prompt_tokens=int(str(line["prompt_tokens"])),
        cached_tokens=int(str(line["cached_tokens"])),
        completion_tokens=int(str(line["completion_tokens"])),
        amount_nano=nano_from_text(str(line["amount"])),
    )


def _entry_line(line: Mapping[str, object]) -> EntryLine:
    return EntryLine(
        at=str(line["at"]),
        kind=str(line["kind"]),
        tx=str(line["tx"]),
        note=str(line["note"]),
        amount_nano=nano_from_text(str(line["amount"])),
    )
