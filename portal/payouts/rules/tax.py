"""Which VAT a payout carries, by who supplies whom from where. Rates come from confirmed profiles, never from here."""

from dataclasses import dataclass
from enum import StrEnum

from stdnum import get_cc_module
from stdnum.exceptions import ValidationError as NumberRefused

from portal.core.errors import InvalidValue
from portal.core.money import BPS

MOST_RATE_BPS = 3000
EU = frozenset(
    "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK".split()  # noqa: SIM905  a list to read
)


class Treatment(StrEnum):
    """How a supply is taxed."""

    PRIVATE = "private"
    SMALL_BUSINESS = "small_business"
    DOMESTIC = "domestic"
    REVERSE_CHARGE = "reverse_charge"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Supplier:
    """Who supplies, as its tax profile says."""

    is_business: bool
    is_small_business: bool
    country: str
    tax_id: str
    vat_rate_bps: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a payout is taxed, and the rate of the VAT on top, in basis points."""

    treatment: Treatment
    rate_bps: int


_SENTENCES = {
    Treatment.PRIVATE: "No VAT: the supplier is a private person.",
    Treatment.SMALL_BUSINESS: "No VAT: the supplier is exempt as a small business.",
    Treatment.DOMESTIC: "",
    Treatment.REVERSE_CHARGE: (
        "Reverse charge: the recipient of the supply owes the VAT (Article 196, Directive 2006/112/EC)."
    ),
    Treatment.OUTSIDE: "No VAT: the supply is not taxable in the supplier's country.",
    Treatment.UNKNOWN: "",
}
_REVERSE_ABROAD = "Reverse charge: the recipient of the supply owes the VAT."


def sentence_of(treatment: Treatment, *, country: str) -> str:
    """Return the sentence that a credit note needs for the treatment of a supplier in `country`."""
    if treatment == Treatment.REVERSE_CHARGE and country not in EU:
        return _REVERSE_ABROAD
    return _SENTENCES[treatment]


def verdict(supplier: Supplier, *, issuer_country: str) -> Verdict:
    """Return how a supply to the pool is taxed; UNKNOWN where a tax number is needed and missing."""
    if not supplier.is_business:
        return _of(Treatment.PRIVATE)
    if supplier.is_small_business:
        return _of(Treatment.SMALL_BUSINESS)
    if supplier.country == issuer_country:
        return _domestic(supplier)
    if issuer_country not in EU:
        return _of(Treatment.OUTSIDE)
    needs_number = supplier.country in EU
    return _of(Treatment.REVERSE_CHARGE if supplier.tax_id or not needs_number else Treatment.UNKNOWN)


def _domestic(supplier: Supplier) -> Verdict:
    if not supplier.vat_rate_bps:
        return _of(Treatment.OUTSIDE)
    return _of(Treatment.DOMESTIC, supplier.vat_rate_bps) if supplier.tax_id else _of(Treatment.UNKNOWN)


def vat_minor(net_minor: int, *, rate_bps: int, step_minor: int = 1) -> int:
    """Return the VAT on a net amount, half up; to whole units where the currency's payouts know no smaller ones."""
    parts = net_minor * rate_bps
    whole = BPS * step_minor
    return (parts + whole // 2) // whole * step_minor


def part_of(amount_minor: int, *, part: int, whole: int) -> int:
    """Return the share of an amount that goes with `part` of `whole`, down; all of it where the whole is meant."""
    return amount_minor if part >= whole else amount_minor * part // whole


def tax_id(text: str, *, country: str) -> str:
    """Return a tax number in its compact form. Raises InvalidValue where its format or check digits are wrong.

    Where no format is known for the country it is kept as it is written. Nobody is asked whether it exists.
    """
    given = text.strip()
    checker = get_cc_module(country.lower(), "vat")
    if not given or checker is None:
        return given[:32]
    try:
        compact = str(checker.validate(_without_prefix(given, country)))
    except NumberRefused as error:
        raise InvalidValue(
            f"this is no tax number of {country}: {error}", param="tax_id", fix="write it as on your tax papers"
        ) from error
    return f"{_prefix(country)}{compact}" if country in EU else compact


def _prefix(country: str) -> str:
    return "EL" if country == "GR" else country


def _without_prefix(text: str, country: str) -> str:
    plain = text.upper().replace(" ", "")
    return plain.removeprefix(_prefix(country)) if country in EU else plain


def _of(treatment: Treatment, rate_bps: int = 0) -> Verdict:
    return Verdict(treatment, rate_bps)
