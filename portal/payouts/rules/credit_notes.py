"""What a credit note says, the one byte form of it, and its number."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from portal.payouts.rules.tax import Treatment, sentence_of

TITLE = "Credit note (self-billed invoice)"
CORRECTION = "Correction of a credit note (self-billed invoice)"
SUPPLY = "Computing capacity supplied to the pool"


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a credit note is made of but its amounts."""

    number: str
    issued_at: datetime
    corrects: str
    issuer: Mapping[str, str]
    supplier: Mapping[str, str]
    payout: str
    transfer: str
    period_start: datetime
    period_end: datetime
    currency: str
    treatment: str
    rate_bps: int
    decimals: int
    fee_minor: int


def number(*, year: int, sequence: int) -> str:
    """Return a credit note's number, such as `CN-2026-000017`."""
    return f"CN-{year}-{sequence:06d}"


def content(facts: Facts, *, net_minor: int, vat_minor: int) -> dict[str, object]:
    """Return all that the credit note says, amounts as decimal text of the currency's unit."""
    fee = 0 if facts.corrects else facts.fee_minor
    return {
        "title": CORRECTION if facts.corrects else TITLE,
        "number": facts.number,
        "corrects": facts.corrects,
        "issued_on": f"{facts.issued_at:%Y-%m-%d}",
        "issuer": dict(facts.issuer),
        "supplier": dict(facts.supplier),
        "supply": SUPPLY,
        "period_start": facts.period_start.isoformat(),
        "period_end": facts.period_end.isoformat(),
        "payout": facts.payout,
        "transfer": facts.transfer,
        "currency": facts.currency,
        "net": amount(net_minor, facts.decimals),
        "vat_rate_percent": percent(facts.rate_bps),
        "vat": amount(vat_minor, facts.decimals),
        "gross": amount(net_minor + vat_minor, facts.decimals),
        "fee_withheld": amount(fee, facts.decimals),
        "paid": amount(net_minor + vat_minor - fee, facts.decimals),
        "treatment": facts.treatment,
        "sentence": sentence_of(Treatment(facts.treatment), country=facts.supplier.get("country", "")),
    }


def digest(plain: Mapping[str, object]) -> str:
    """Return the hex SHA-256 over the content's canonical form: sorted keys, no spaces, UTF-8."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def amount(minor: int, decimals: int) -> str:
    """Return minor units with the currency's own number of decimals."""
    sign, size = ("-", -minor) if minor < 0 else ("", minor)
    whole, rest = divmod(size, 10**decimals)
    return f"{sign}{whole}.{rest:0{decimals}d}" if decimals else f"{sign}{whole}"


def percent(rate_bps: int) -> str:
    """Return a rate in per cent, without trailing zeros."""
    whole, rest = divmod(rate_bps, 100)
    return f"{whole}.{rest:02d}".rstrip("0").rstrip(".") if rest else str(whole)
