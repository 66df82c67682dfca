"""Who may earn from whom."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from portal.core.money import Nano


class Withheld(StrEnum):
    """Why a provider got no share of a charge; empty where it got one."""

    NOTHING = ""
    HOUSE = "house"
    RELATED = "related_party"
    LINKED_PROMO = "linked_promo"


class Bond(IntEnum):
    """What is known of a customer and a provider: strangers, linked by a fact that proves nothing, or one party."""

    NONE = 0
    LINKED = 1
    RELATED = 2


@dataclass(frozen=True, slots=True)
class Payer:
    """The customer's side of a charge; `has_promo` where any of it is paid from promotional credit."""

    organization_id: int
    bond: Bond = Bond.NONE
    has_promo: bool = False


@dataclass(frozen=True, slots=True)
class Earner:
    """The provider's side of a charge."""

    organization_id: int
    is_house: bool


@dataclass(frozen=True, slots=True)
class Split:
    """How one charge is divided; the two parts always add up to it."""

    provider_nano: Nano
    platform_nano: Nano
    withheld: Withheld


def are_related(*, payer: Payer, earner: Earner) -> bool:
    """Tell whether customer and provider are the same party, who never earn from each other, promo or paid."""
    return payer.organization_id == earner.organization_id or payer.bond is Bond.RELATED


def split(*, charge_nano: int, provider_nano: int, payer: Payer, earner: Earner) -> Split:
    """Return who gets what of a charge whose record grants `provider_nano`. Raises ValueError beyond the charge."""
    if not 0 <= provider_nano <= charge_nano:
        raise ValueError(f"a share of {provider_nano} does not fit a charge of {charge_nano}")
    if earner.is_house:
        return Split(Nano(0), Nano(charge_nano), Withheld.HOUSE)
    if are_related(payer=payer, earner=earner):
        return Split(Nano(0), Nano(charge_nano), Withheld.RELATED)
    if payer.has_promo and payer.bond is Bond.LINKED:
        return Split(Nano(0), Nano(charge_nano), Withheld.LINKED_PROMO)
    return Split(Nano(provider_nano), Nano(charge_nano - provider_nano), Withheld.NOTHING)
