"""The smallest payout: the pool's minimum, what the provider asks for, and what banks in its country take at all."""

from collections.abc import Mapping

from portal.core import money

# Stripe lists higher floors for payouts across the border to these countries, each in the country's own currency; so
# many whole units of a major currency cover them. Anywhere else it is about one unit.
_DEAR_UNITS = 40
_DEAR = frozenset({"AL", "AM", "AO", "AZ", "BA", "BO", "BT", "CL", "CO", "KH", "KR"})


def floor_minor(*, currency: str, country: str, given: Mapping[str, int]) -> int:
    """Return what Stripe pays out to the country at least, or what the operator has set for it where that is more."""
    units = _DEAR_UNITS if country in _DEAR else 1
    return max(int(units * 10 ** money.exponent(currency)), given.get(country, 0))


def smallest_minor(*, currency: str, country: str, pool_minor: int, wish_minor: int, given: Mapping[str, int]) -> int:
    """Return the smallest payout of a provider that stays: all of pool, provider and country must be content."""
    dear = floor_minor(currency=currency, country=country, given=given) if country in _DEAR else 0
    return max(pool_minor, wish_minor, dear, given.get(country, 0))
