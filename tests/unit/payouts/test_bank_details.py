"""Bank details: one spelling, their own check digits, and a name that is the same however they were typed."""

import pytest

from portal.payouts.errors import BankDetailsInvalid
from portal.payouts.rules import bank_details
from portal.payouts.rules.bank_details import BankDetails


def check(scheme: str, account: str, bank: str = "") -> BankDetails:
    """Check details of a provider in Germany."""
    return bank_details.check(scheme=scheme, account=account, bank=bank, country="DE")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("iban", "de89 3704 0044 0532 0130 00"), BankDetails("iban", "DE89370400440532013000", "COBADEFFXXX", "DE")),
        (("iban", "NO93-8601-1117-947", "DNBANOKK"), BankDetails("iban", "NO9386011117947", "DNBANOKK", "NO")),
        (("us", "0001 2345 6789", "110000000"), BankDetails("us", "000123456789", "110000000", "US")),
        (("swift", "12-3456-78", "ANZBAU3M"), BankDetails("swift", "12345678", "ANZBAU3M", "AU")),
    ],
)
def test_the_one_spelling(given, expected):
    assert check(*given) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("iban", "DE89370400440532013001"), "this is no IBAN: invalid checksum digits"),
        (("iban", "DE893704004405320130"), "this is no IBAN: invalid length"),
        (("iban", ""), "this is no IBAN: invalid structure"),
        (("iban", "DE89370400440532013000", "NOBANK"), "this is no BIC: invalid length"),
        (("us", "1234", "000000000"), "this is no routing number: nine digits, the last one checks the others"),
        (("us", "1234", "110000001"), "this is no routing number: nine digits, the last one checks the others"),
        (("us", "12A4", "110000000"), "an account number has 4 to 17 digits"),
        (("swift", "1", "ANZBAU3M"), "an account number has 4 to 34 letters and digits"),
    ],
)
def test_what_cannot_be_right_is_said_without_repeating_it(given, words):
    with pytest.raises(BankDetailsInvalid) as refused:
        check(*given)

    assert refused.value.message == words


def test_the_same_account_has_the_same_name():
    assert check("iban", "DE89370400440532013000").identity == check("iban", "de89 3704 0044 0532 0130 00").identity
    assert check("us", "12345678", "110000000").identity != check("us", "12345678", "021000021").identity


def test_details_come_back_as_they_were_sealed():
    details = check("us", "000123456789", "110000000")

    assert bank_details.from_text(details.text) == details
    assert details.last4 == "6789"
