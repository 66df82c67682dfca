"""Amounts of money as sentences name them."""

from portal.core import money


def written(nano: int, currency: str) -> str:
    """Return the exact amount with its currency, such as `12.5 USD`."""
    return f"{money.decimal_text(nano)} {currency.upper()}"


def written_minor(minor: int, currency: str) -> str:
    """Return an amount of minor units with its currency, such as `12.5 USD`."""
    return written(money.nano_from_minor(minor, currency), currency)
