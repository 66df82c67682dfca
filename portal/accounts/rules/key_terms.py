"""What an API key may be limited to, and what it is limited to when nobody says otherwise.

The classes are those of the nodes room, which lies above; a test holds the two lists together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_network

from portal.accounts.rules import terms
from portal.accounts.rules.terms import NO_LIMITS, Budget, LimitTerms
from portal.core.errors import InvalidValue
from portal.core.money import NANO_PER_UNIT

NODE_CLASSES = ("house", "contracted", "community", "unidentified")
DEFAULT_NODE_CLASSES = ("house", "contracted")
DEFAULT_BUDGET = Budget(cap_nano=100 * NANO_PER_UNIT, period="month")
MAX_NETWORKS = 64
MAX_MODELS = 200
_MAX_MODEL_NAME = 96
_COUNTRY_LETTERS = 2
_MAPPED = IPv6Network("::ffff:0:0/96")
_MAPPED_BITS = 96


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """Everything that people choose about a key. None in `allowed_models` and `countries`: any."""

    name: str
    node_classes: tuple[str, ...] = DEFAULT_NODE_CLASSES
    budget: Budget = DEFAULT_BUDGET
    limits: LimitTerms = NO_LIMITS
    expires_at: datetime | None = None
    project: str | None = None
    allows_tools: bool = True
    tools_on_any_class: bool = False
    is_private_only: bool = False
    allowed_models: tuple[str, ...] | None = None
    networks: tuple[str, ...] = ()
    countries: tuple[str, ...] | None = None


def checked(wanted: KeyTerms) -> KeyTerms:
    """Return the terms in one form. Raises InvalidValue naming the field."""
    terms.require_limits(wanted.limits)
    terms.require_budget(wanted.budget)
    return replace(
        wanted,
        name=terms.require_name(wanted.name),
        node_classes=_classes(wanted.node_classes),
        allowed_models=_models(wanted.allowed_models),
        networks=in_one_form(wanted.networks),
        countries=_countries(wanted.countries),
    )


def require_future(expires_at: datetime | None, *, now: datetime) -> None:
    """Refuse an expiry that is over. Raises InvalidValue."""
    if expires_at is not None and expires_at <= now:
        raise InvalidValue("The expiry lies in the past.", param="expires_at")


def in_order(node_classes: Iterable[str]) -> list[str]:
    """Return the classes without doubles, best identified first. Raises ValueError for an unknown one."""
    chosen = set(node_classes)
    unknown = sorted(chosen - set(NODE_CLASSES))
    if unknown:
        raise ValueError(f"unknown node class: {', '.join(unknown)}")
    return [name for name in NODE_CLASSES if name in chosen]


def in_one_form(networks: Iterable[str]) -> tuple[str, ...]:
    """Return networks such as `192.0.2.0/24` without doubles, in the order given. Raises InvalidValue."""
    found = tuple(dict.fromkeys(str(network(text)) for text in networks))
    if len(found) > MAX_NETWORKS:
        raise InvalidValue(f"At most {MAX_NETWORKS} networks.", param="networks")
    return found


def network(text: str) -> IPv4Network | IPv6Network:
    """Read an address or network; IPv4 written as IPv6 becomes IPv4. Raises InvalidValue."""
    try:
        read = ip_network(text.strip(), strict=False)
    except ValueError as error:
        message = f"{text.strip()[:64]!r} is no IP address or network such as 192.0.2.0/24."
        raise InvalidValue(message, param="networks") from error
    if isinstance(read, IPv6Network) and read.subnet_of(_MAPPED):
        mapped = read.network_address.ipv4_mapped
        return IPv4Network((mapped or 0, read.prefixlen - _MAPPED_BITS))
    return read


def _classes(node_classes: Iterable[str]) -> tuple[str, ...]:
    try:
        found = tuple(in_order(node_classes))
    except ValueError as error:
        raise InvalidValue(str(error), param="node_classes") from error
    if not found:
        raise InvalidValue("Allow at least one class of nodes.", param="node_classes")
    return found


def _models(names: Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = tuple(sorted(set(names)))
    if not found:
        raise InvalidValue("Allow at least one model, or all of them.", param="allowed_models")
    if len(found) > MAX_MODELS or any(not 0 < len(name) <= _MAX_MODEL_NAME for name in found):
        raise InvalidValue(f"At most {MAX_MODELS} models, each by its id.", param="allowed_models")
    return found


def _countries(codes: Iterable[str] | None) -> tuple[str, ...] | None:
    if codes is None:
        return None
    found = tuple(sorted({code.strip().upper() for code in codes}))
    if not found:
        raise InvalidValue("Allow at least one country, or all of them.", param="countries")
    wrong = [code for code in found if not (len(code) == _COUNTRY_LETTERS and code.isascii() and code.isalpha())]
    if wrong:
        raise InvalidValue(f"{wrong[0][:16]!r} is no country code such as DE.", param="countries")
    return found
