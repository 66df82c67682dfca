"""A statement's content: its canonical form, and the way back."""

import pytest

from portal.billing.rules import statements
from portal.billing.rules.export import csv_text, safe_cell
from portal.billing.rules.statements import Content, EntryLine, UsageLine

CONTENT = Content(
    kind="customer",
    party="org_a",
    currency="usd",
    starts_at="2026-11-01T00:00:00+00:00",
    ends_at="2026-12-01T00:00:00+00:00",
    opening_nano=5,
    closing_nano=1_000_000_004,
    usage=(UsageLine("acme/chat", "", 2, 10, 1, 5, 1),),
    entries=(EntryLine("2026-11-02T00:00:00+00:00", "topup", "1", "Zahlung, Café", 1_000_000_000),),
)


def test_the_content_comes_back_as_it_was():
    assert statements.from_json(statements.to_json(CONTENT)) == CONTENT


def test_amounts_are_decimal_strings():
    plain = statements.to_json(CONTENT)

    assert (plain["opening"], plain["closing"]) == ("0.000000005", "1.000000004")
    assert plain["totals"] == {"usage": "0.000000001", "entries": "1"}
    assert plain["usage"][0]["amount"] == "0.000000001"


def test_the_digest_depends_on_content_and_not_on_order():
    plain = statements.to_json(CONTENT)

    assert statements.digest(dict(reversed(plain.items()))) == statements.digest(plain)
    assert statements.digest(plain | {"closing": "1.000000005"}) != statements.digest(plain)
    assert "Zahlung, Café".encode() in statements.canonical(plain)


def test_a_sound_statement_has_no_gap():
    assert CONTENT.gap_nano == 0
    assert (CONTENT.usage_nano, CONTENT.entries_nano) == (1, 1_000_000_000)


def test_a_providers_usage_counts_for_him():
    earned = Content("provider", "prov_a", "usd", "", "", 5, 6, CONTENT.usage, ())

    assert earned.gap_nano == 0


@pytest.mark.parametrize("damage", [{"usage": "none"}, {"entries": ["text"]}])
def test_damaged_lines_are_noticed(damage):
    with pytest.raises(TypeError):
        statements.from_json(statements.to_json(CONTENT) | damage)


def test_numbers_name_kind_month_and_sequence():
    assert statements.number(kind="customer", month="2026-11", sequence=7) == "C-2026-11-0007"
    assert statements.number(kind="provider", month="2026-11", sequence=12345) == "P-2026-11-12345"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+49", "'+49"),
        ("@sum", "'@sum"),
        ("-cmd", "'-cmd"),
        ("\tx", "'\tx"),
        ("-3.20", "-3.20"),
        ("-3\n", "'-3\n"),
        ("plain", "plain"),
        (7, "7"),
    ],
)
def test_a_spreadsheet_takes_no_cell_for_a_formula(value, cell):
    assert safe_cell(value) == cell


def test_a_table_ends_its_lines_as_the_standard_says():
    assert csv_text(header=["a", "b"], rows=[("=x", 1), ('say "hi"', -2)]) == 'a,b\r\n\'=x,1\r\n"say ""hi""",-2\r\n'
