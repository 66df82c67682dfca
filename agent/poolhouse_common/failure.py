"""The shape of one failure: what it is called, who must act, why it happens, what to do."""

from dataclasses import dataclass

NODE = "node"
PROVIDER = "provider"
PROVIDER_NETWORK = "provider_network"
ENGINE = "engine"
PLATFORM = "platform"
CUSTOMER = "customer"
OPERATOR = "operator"

SOURCES = frozenset({NODE, PROVIDER, PROVIDER_NETWORK, ENGINE, PLATFORM, CUSTOMER, OPERATOR})


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure. `source` says where it lies (one of SOURCES), `title` what a reader sees first."""

    code: str
    source: str
    title: str
    cause: str
    fix: str
