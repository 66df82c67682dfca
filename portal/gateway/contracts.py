"""What the parts of the gateway hand to one another: the snapshot's entries and the life of a paid request.

Everything here is in memory. The snapshot is replaced as a whole, its entries never change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from math import inf
from typing import Any, Protocol
from uuid import UUID

from poolhouse_common.receipts import TunnelDigest

from portal.core.records import record
from portal.gateway.lease_pool import Part
from portal.gateway.purse import Purse
from portal.metering.rules.draws import Draws


@dataclass(frozen=True, slots=True)
class Limits:
    """What an owner may do a minute and at once; None: nothing beyond the pool's own limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    parallel_requests: int | None = None


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """A budget that requests draw on: a key's, its project's or its organization's, named by public id."""

    owner: str
    period: str
    cap_nano: int
    zone: str


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """What a key may be used for. Empty networks: from anywhere; None: no restriction.

    Private nodes come first where the organization has any; `is_private_only` forbids the public pool after them.
    """

    models: frozenset[str] | None = None
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    countries: frozenset[str] | None = None
    allows_tools: bool = True
    is_private_only: bool = False


NO_LIMITS = Limits()
OPEN_POLICY = KeyPolicy()


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """An API key as admission sees it. Times are Unix seconds."""

    id: int
    public_id: str
    organization_id: int
    organization: str
    is_organization_active: bool
    node_classes: frozenset[str]
    tools_on_any_class: bool
    expires_at: float | None
    is_revoked: bool
    policy: KeyPolicy = OPEN_POLICY
    limits: Limits = NO_LIMITS
    project: str | None = None
    project_limits: Limits = NO_LIMITS
    organization_limits: Limits = NO_LIMITS
    budgets: tuple[BudgetTerms, ...] = ()
    stopped_for: str = ""  # why the organization may not spend for now
    is_replaced: bool = False  # found by a secret that rotation replaced; `expires_at` is then the end of its grace


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """One price version: nano per million tokens and nano per request, between two moments (Unix seconds)."""

    id: int
    version: int
    prompt_nano_per_mtok: int
    cached_nano_per_mtok: int
    completion_nano_per_mtok: int
    request_nano: int
    effective_from: float
    effective_until: float = inf


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A catalogue model. `prices` is ordered by `effective_from`; overheads are None where no probe proved them."""

    id: int
    public_id: str
    name: str
    state: str
    context_tokens: int
    max_output_tokens: int
    default_output_tokens: int
    message_overhead_bytes: int | None
    request_overhead_bytes: int | None
    end_tokens: int
    supported_parameters: frozenset[str]
    first_token_timeout_s: int
    quantization: str
    tokenizer_sha256: str | None
    template_sha256: str | None
    created_at: float
    deprecates_at: float | None
    prices: tuple[PriceEntry, ...]
    task: str = "chat"
    embedding_dimensions: int | None = None
    caches_prefixes: bool = True


@dataclass(frozen=True, slots=True)
class TunnelEntry:
    """Which process owns the node's tunnel and where its peers reach it."""

    process: str
    peer: str
    generation: int


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node as the snapshot knows it. `models` maps model id to its concurrency limit.

    Only a routable node gets requests, and a private one only those of the organizations that may use it.
    """

    id: int
    public_id: str
    provider_id: int
    organization_id: int
    node_class: str
    country: str
    region: str
    generation: int
    share_bps: int
    trust_weight: float
    models: Mapping[int, int]
    models_without_tolerance: frozenset[int]
    tunnel: TunnelEntry | None
    is_routable: bool = True
    is_private: bool = False
    models_with_hidden_cache: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PrivateNode:
    """A private node with one of its models, as one organization may use it.

    `prices` are its provider's own for the model, ordered by `effective_from`; none: the public price holds.
    `unaccepted` has the ids of those that were set after the organization accepted, and are dearer.
    """

    node: NodeEntry
    prices: tuple[PriceEntry, ...] = ()
    unaccepted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a request needs to be admitted and routed. `keys` is by SHA-256 (32 bytes) of the full key text.

    `nodes_by_model` has the public pool; `private_nodes` is by organization id and model id, and so is `own_prices`:
    what was agreed with an organization in place of the public price.
    """

    keys: Mapping[bytes, KeyEntry]
    models: Mapping[str, ModelEntry]
    nodes: Mapping[int, NodeEntry]
    nodes_by_model: Mapping[int, tuple[NodeEntry, ...]]
    private_nodes: Mapping[tuple[int, int], tuple[PrivateNode, ...]] = field(default_factory=dict)
    own_prices: Mapping[tuple[int, int], tuple[PriceEntry, ...]] = field(default_factory=dict)


@record(frozen=True, slots=True)
class RequestFacts:
    """What settlement must know of an admitted request; `body` is the parsed, cleaned request that goes to the node."""

    request_id: UUID
    client_request_id: str
    key: KeyEntry
    model: ModelEntry
    price: PriceEntry
    endpoint: str
    is_stream: bool
    body: dict[str, Any]
    prompt_bound_tokens: int
    output_bound_tokens: int
    hold_nano: int
    opened_at: float
    node_path: str = "chat/completions"
    choices: int = 1


@dataclass(slots=True)
class Drawn:
    """What one hold has of one purse, in the order it is spent."""

    purse: Purse
    parts: list[Part]

    def named(self) -> list[tuple[int, int]]:
        """Return the parts as records have them: lease id and nano."""
        return [(part.lease.id, part.nano) for part in self.parts]


@dataclass(slots=True)
class Hold:
    """Credit set aside for one request, and as much of each budget it draws on; while an attempt is open it may grow.

    What is billed is split as the hold stands then, so it must not grow between the bill and the release.
    """

    nano: int
    organization_id: int
    credit: Drawn
    budgets: tuple[Drawn, ...] = ()
    is_open: bool = True
    may_grow: bool = True

    def draws(self) -> Draws:
        """Return the parts as records have them."""
        return Draws(self.credit.named(), [drawn.named() for drawn in self.budgets])


@dataclass(slots=True)
class Claim:
    """What the node says it used; None where it said nothing. `oddities` are the rules its saying so broke."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    oddities: tuple[str, ...] = ()
    is_closing_stated: bool = False

    def note(self, rule: str) -> None:
        """Remember that a rule of the failure catalogue was broken."""
        if rule not in self.oddities:
            self.oddities += (rule,)


class Cover(Protocol):
    """Sees to it that the hold of a long stream pays for what is handed over."""

    def pays_for(self, size: int) -> bool: ...  # whether it covers so many bytes more

    async def reach(self, texts: Iterable[tuple[int, str]]) -> None:
        """Return once the hold covers these texts as well. Raises MoneyRefused: then they must not be handed over."""


@dataclass(slots=True)
class Attempt:
    """One dispatch of a request to one node. The relay appends what it handed to the customer's socket."""

    facts: RequestFacts
    hold: Hold
    node: NodeEntry
    number: int
    routing: dict[str, Any]
    spool_row: int
    claim: Claim = field(default_factory=Claim)
    delivered: list[str] = field(default_factory=list)
    delivered_by_choice: dict[int, list[str]] = field(default_factory=dict)
    delivered_bytes: int = 0
    finished_choices: int = 0
    first_token_at: float | None = None
    is_open: bool = True
    node_price: PriceEntry | None = None
    retry_stopped_by: str = ""
    opened_at: float = 0.0
    cover: Cover | None = None
    digest: TunnelDigest | None = None

    @property
    def price(self) -> PriceEntry:
        """What the attempt is billed at: its node's own price, else the one that the request came with."""
        return self.node_price or self.facts.price

    def deliver(self, text: str, *, choice: int = 0) -> None:
        """Note generated text (content, reasoning, tool calls) that went to the customer's socket."""
        if text:
            self.delivered.append(text)
            self.delivered_by_choice.setdefault(choice, []).append(text)
            self.delivered_bytes += len(text.encode())


@record(frozen=True, slots=True)
class Settled:
    """How an attempt was closed; token counts are the billed ones."""

    outcome: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    token_source: str
    charge_nano: int
    provider_nano: int
