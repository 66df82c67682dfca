"""What a currency allows: the smallest charge, which amounts are whole enough, and what a charge costs."""

from portal.core import money
from portal.sandbox.stripe_double.faults import Refusal, invalid
from portal.sandbox.stripe_double.store import Store

LARGEST_CHARGE = 99_999_999
WHOLE_UNITS = frozenset({"isk", "huf", "twd", "ugx"})
_CHARGED_WHOLE = frozenset({"isk", "ugx"})
_USUAL_LEAST = {0: 50, 2: 50, 3: 150}
_LEAST = {
    "aed": 200,
    "bgn": 100,
    "czk": 1500,
    "dkk": 250,
    "gbp": 30,
    "hkd": 400,
    "huf": 17500,
    "mxn": 1000,
    "myr": 200,
    "nok": 300,
    "pln": 200,
    "ron": 200,
    "sek": 300,
    "thb": 1000,
}
_FIXED_FEE = {0: 30, 2: 30, 3: 90}
_FEE_BPS = "290"
_THREE_DECIMALS = 3


def least(currency: str) -> int:
    """Return the smallest amount that may be charged."""
    return _LEAST.get(currency, _USUAL_LEAST[money.exponent(currency)])


def check_charge(amount: int, currency: str, *, param: str = "amount") -> None:
    """Refuse an amount that cards of this currency cannot carry. Raises Refusal."""
    if amount < least(currency):
        raise invalid(
            f"Amount must be at least {least(currency)} {currency} in its smallest unit",
            code="amount_too_small",
            param=param,
        )
    if amount > LARGEST_CHARGE:
        raise invalid("Amount must be no more than 8 digits", code="amount_too_large", param=param)
    step = _step(currency)
    if amount % step:
        raise invalid(f"Amounts in {currency} must be a multiple of {step}", param=param)


def _step(currency: str) -> int:
    """Return what every amount must be a multiple of: card networks carry no third decimal."""
    if currency in _CHARGED_WHOLE:
        return 100
    return 10 if money.exponent(currency) == _THREE_DECIMALS else 1


def check_transfer(amount: int, currency: str) -> None:
    """Refuse an amount that banks of this currency cannot carry. Raises Refusal."""
    if amount < 1:
        raise too_small()
    if currency in WHOLE_UNITS and amount % 100:
        raise invalid(f"Amounts in {currency} must be whole units.", param="amount")


def too_small() -> Refusal:
    """Return the refusal of an amount below one."""
    return invalid("This value must be greater than or equal to 1.", param="amount", code="parameter_invalid_integer")


def fee(store: Store, amount: int, currency: str) -> int:
    """Return what this charge costs the platform."""
    return amount * int(store.meta("fee_bps", _FEE_BPS)) // 10_000 + _FIXED_FEE[money.exponent(currency)]


def short() -> Refusal:
    """Return the refusal of a platform that has too little."""
    return Refusal(400, "balance_insufficient", "You have insufficient available funds in your Stripe account.")
