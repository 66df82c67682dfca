"""Bank details as people type them: cleaned, checked by their own check digits, and named without being told."""

import json
import re
from dataclasses import asdict, dataclass

from schwifty import BIC, IBAN
from schwifty.exceptions import SchwiftyException as NotOfABank

from portal.payouts.errors import BankDetailsInvalid

_ROUTING = re.compile(r"[0-9]{9}")
_US_ACCOUNT = re.compile(r"[0-9]{4,17}")
_ACCOUNT = re.compile(r"[0-9A-Z]{4,34}")
_WEIGHTS = (3, 7, 1) * 3
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class BankDetails:
    """An account at a bank: `account` is an IBAN or an account number, `bank` a BIC or a routing number."""

    scheme: str
    account: str
    bank: str
    country: str

    @property
    def last4(self) -> str:
        """The end of the account number, which may be shown."""
        return self.account[-_SHOWN:]

    @property
    def identity(self) -> str:
        """A text that is the same for the same account however it was typed."""
        return f"{self.scheme}:{self.account}" if self.scheme == "iban" else f"{self.bank}:{self.account}"

    @property
    def text(self) -> str:
        """The details as they are sealed."""
        return json.dumps(asdict(self), sort_keys=True)


def from_text(text: str) -> BankDetails:
    """Return the details that were sealed."""
    return BankDetails(**json.loads(text))


def check(*, scheme: str, account: str, bank: str, country: str) -> BankDetails:
    """Return the details in their one spelling. Raises BankDetailsInvalid, which names the field and what is wrong."""
    account, bank = _compact(account), _compact(bank)
    if scheme == "iban":
        return _iban(account, bank)
    if scheme == "us":
        return _us(account, bank)
    if scheme == "swift":
        return _swift(account, bank, country)
    raise BankDetailsInvalid("choose how the account is named", param="scheme")


def _compact(text: str) -> str:
    return re.sub(r"[\s.\-]", "", text).upper()


def _iban(account: str, bank: str) -> BankDetails:
    try:
        iban = IBAN(account, validate_bban=True)
    except NotOfABank as error:
        raise BankDetailsInvalid(f"this is no IBAN: {_reason(error)}", param="account") from error
    if bank:
        _require_bic(bank)
    return BankDetails("iban", iban.compact, bank or str(iban.bic or ""), iban.country_code)


def _us(account: str, bank: str) -> BankDetails:
    digits = [int(digit) for digit in bank] if _ROUTING.fullmatch(bank) else []
    if not any(digits) or sum(weight * digit for weight, digit in zip(_WEIGHTS, digits, strict=True)) % 10:
        raise BankDetailsInvalid("this is no routing number: nine digits, the last one checks the others", param="bank")
    if not _US_ACCOUNT.fullmatch(account):
        raise BankDetailsInvalid("an account number has 4 to 17 digits", param="account")
    return BankDetails("us", account, bank, "US")


def _swift(account: str, bank: str, country: str) -> BankDetails:
    bic = _require_bic(bank)
    if not _ACCOUNT.fullmatch(account):
        raise BankDetailsInvalid("an account number has 4 to 34 letters and digits", param="account")
    return BankDetails("swift", account, bank, str(bic.country_code) or country)


def _require_bic(text: str) -> BIC:
    try:
        return BIC(text)
    except NotOfABank as error:
        raise BankDetailsInvalid(f"this is no BIC: {_reason(error)}", param="bank") from error


def _reason(error: NotOfABank) -> str:
    """Return what the checking library found, without what was typed."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(error).__name__).lower()
    return words.replace("bban", "account part")
