"""Which VAT a payout carries, and what a credit note says of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.core.errors import InvalidValue
from portal.payouts.rules import credit_note_pdf, tax
from portal.payouts.rules import credit_notes as notes
from portal.payouts.rules.tax import Supplier, Treatment


def supplier(**changes) -> Supplier:
    given_ = {
        "is_business": True,
        "is_small_business": False,
        "country": "DE",
        "tax_id": "DE136695976",
        "vat_rate_bps": 1900,
    }
    return Supplier(**(given_ | changes))


@pytest.mark.parametrize(
    ("who", "issuer", "treatment", "rate"),
    [
        ({}, "DE", Treatment.DOMESTIC, 1900),
        ({"tax_id": ""}, "DE", Treatment.UNKNOWN, 0),
        ({"vat_rate_bps": 0}, "DE", Treatment.OUTSIDE, 0),
        ({"is_business": False}, "DE", Treatment.PRIVATE, 0),
        ({"is_small_business": True}, "DE", Treatment.SMALL_BUSINESS, 0),
        ({"is_small_business": True}, "FR", Treatment.SMALL_BUSINESS, 0),
        ({}, "FR", Treatment.REVERSE_CHARGE, 0),
        ({"tax_id": ""}, "FR", Treatment.UNKNOWN, 0),
        ({"country": "US", "tax_id": ""}, "FR", Treatment.REVERSE_CHARGE, 0),
        ({}, "US", Treatment.OUTSIDE, 0),
        ({"country": "GB", "tax_id": "980780684", "vat_rate_bps": 2000}, "GB", Treatment.DOMESTIC, 2000),
    ],
)
def test_a_supply_is_taxed_by_who_supplies_whom(who, issuer, treatment, rate):
    found = tax.verdict(supplier(**who), issuer_country=issuer)

    assert (found.treatment, found.rate_bps) == (treatment, rate)


def test_reverse_charge_has_its_sentence():
    assert "Article 196" in tax.sentence_of(Treatment.REVERSE_CHARGE, country="DE")
    assert tax.sentence_of(Treatment.REVERSE_CHARGE, country="US").endswith("owes the VAT.")
    assert tax.sentence_of(Treatment.DOMESTIC, country="DE") == ""


@pytest.mark.parametrize(
    ("net", "rate", "step", "vat"),
    [(10_000, 1900, 1, 1900), (3, 1900, 1, 1), (2, 1900, 1, 0), (10_050, 2700, 100, 2700), (1005, 500, 10, 50)],
)
def test_vat_is_rounded_half_up_once(net, rate, step, vat):
    assert tax.vat_minor(net, rate_bps=rate, step_minor=step) == vat


@given(st.integers(1, 10**9), st.lists(st.integers(1, 10**9), max_size=5))
def test_parts_of_a_whole_never_exceed_it(amount, cuts):
    whole = max([*cuts, 1])
    parts = [tax.part_of(amount, part=part, whole=whole) for part in sorted(cuts)]

    assert parts == sorted(parts)
    assert all(0 <= part <= amount for part in parts)
    assert tax.part_of(amount, part=whole, whole=whole) == amount


@pytest.mark.parametrize(
    ("country", "text", "kept"),
    [
        ("DE", "de 136 695 976", "DE136695976"),
        ("GR", "EL094259216", "EL094259216"),
        ("FR", "40303265045", "FR40303265045"),
        ("CH", "CHE-107.787.577 IVA", "CHE107787577IVA"),
        ("US", "12-3456789", "12-3456789"),
        ("DE", "  ", ""),
    ],
)
def test_a_tax_number_is_kept_in_one_form(country, text, kept):
    assert tax.tax_id(text, country=country) == kept


@pytest.mark.parametrize(("country", "text"), [("DE", "DE136695977"), ("DE", "FR40303265045"), ("IT", "IT1")])
def test_a_wrong_tax_number_is_refused(country, text):
    with pytest.raises(InvalidValue) as refusal:
        tax.tax_id(text, country=country)

    assert (refusal.value.code, refusal.value.param) == ("invalid_value", "tax_id")


@pytest.mark.parametrize(
    ("minor", "decimals", "text"), [(1234, 2, "12.34"), (-5, 2, "-0.05"), (1234, 0, "1234"), (12_345, 3, "12.345")]
)
def test_amounts_have_their_currencys_decimals(minor, decimals, text):
    assert notes.amount(minor, decimals) == text


def test_the_pdf_of_one_note_is_always_the_same():
    content = {
        "title": notes.TITLE,
        "number": "CN-2026-000001",
        "corrects": "",
        "issued_on": "2026-11-30",
        "issuer": {"name": "Pool Łódź GmbH", "address": "Weg 1\n10115 Berlin", "country": "DE", "tax_id": "DE1"},
        "supplier": {
            "name": "Müller & Söhne",
            "address": "Straße 9",
            "country": "AT",
            "tax_id": "",
            "consented_at": "",
        },
        "supply": notes.SUPPLY,
        "period_start": "2026-10-01T00:00:00+00:00",
        "period_end": "2026-11-01T00:00:00+00:00",
        "payout": "payout_1",
        "transfer": "tr_1",
        "currency": "eur",
        "net": "10.00",
        "vat_rate_percent": "0",
        "vat": "0.00",
        "gross": "10.00",
        "fee_withheld": "0.25",
        "paid": "9.75",
        "treatment": "reverse_charge",
        "sentence": "Reverse charge: the recipient of the supply owes the VAT.",
    }

    first, second = (credit_note_pdf.render(content, sha256="0" * 64) for _ in range(2))

    assert first == second
    assert first.startswith(b"%PDF")
