"""Turns node rows into the snapshot's entries: the public pool, and what each organization may use besides."""

from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Final

from portal.billing.models import PriceVersion
from portal.billing.rules import private_prices as price_rules
from portal.billing.selectors.price_versions import until_of
from portal.gateway.contracts import NodeEntry, PriceEntry, PrivateNode, TunnelEntry
from portal.nodes.selectors.for_gateway import NodeRow
from portal.providers.selectors.for_gateway import ProviderRow
from portal.trust.selectors.for_gateway import Standing

_USUAL: Final = Standing()


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares in basis points of providers with one of their own, and of all others."""

    own: dict[int, int]
    usual: int

    def of(self, owner: ProviderRow) -> int:
        """Return the provider's share; the operator's own nodes earn nothing."""
        return 0 if owner.is_house else self.own.get(owner.id, self.usual)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rooms below know of all nodes."""

    rows: list[NodeRow]
    owners: dict[int, ProviderRow]
    standings: dict[int, Standing]
    shares: Shares
    private_prices: dict[tuple[int, int], list[PriceVersion]]


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes, the public ones by model, and the private ones by organization and model."""

    entries: dict[int, NodeEntry]
    public: dict[int, tuple[NodeEntry, ...]]
    private: dict[tuple[int, int], tuple[PrivateNode, ...]]


def fleet(facts: Facts) -> Fleet:
    """Return the entries. A private node's guests get it with the prices they have accepted."""
    entries: dict[int, NodeEntry] = {}
    public: dict[int, list[NodeEntry]] = {}
    private: dict[tuple[int, int], list[PrivateNode]] = {}
    for row in facts.rows:
        owner = facts.owners.get(row.provider_id)
        if owner is None:
            continue  # made since the providers were read: their digest differs now, the next load has both
        entry = _entry(row, owner, facts)
        entries[row.id] = entry
        for model_id in row.models if entry.is_routable else ():
            if not row.is_private:
                if owner.may_earn:
                    public.setdefault(model_id, []).append(entry)
                continue
            versions = facts.private_prices.get((row.provider_id, model_id), [])
            if not owner.may_earn and not _are_free(versions):
                continue
            for guest in row.guests:
                seen = _private(entry, versions, guest.accepted_at)
                private.setdefault((guest.organization_id, model_id), []).append(seen)
    return Fleet(
        entries=entries,
        public={model: tuple(found) for model, found in public.items()},
        private={who: tuple(found) for who, found in private.items()},
    )


def price_entry(row: PriceVersion) -> PriceEntry:
    """Return a price version as routing and rating read it."""
    until = until_of(row)
    return PriceEntry(
        id=row.pk,
        version=row.version,
        prompt_nano_per_mtok=row.prompt_nano_per_mtok,
        cached_nano_per_mtok=row.cached_nano_per_mtok,
        completion_nano_per_mtok=row.completion_nano_per_mtok,
        request_nano=row.request_nano,
        effective_from=row.effective_from.timestamp(),
        effective_until=inf if until is None else until.timestamp(),
    )


def _are_free(versions: list[PriceVersion]) -> bool:
    """Tell whether a private node's guests are never charged, so that its owner earns nothing that would be held."""
    return bool(versions) and all(
        row.prompt_nano_per_mtok == row.cached_nano_per_mtok == row.completion_nano_per_mtok == row.request_nano == 0
        for row in versions
    )


def _private(entry: NodeEntry, versions: list[PriceVersion], accepted_at: datetime) -> PrivateNode:
    unaccepted = price_rules.unaccepted(versions, accepted_at=accepted_at)
    return PrivateNode(entry, tuple(price_entry(row) for row in versions), unaccepted)


def _entry(row: NodeRow, owner: ProviderRow, facts: Facts) -> NodeEntry:
    tunnel = row.tunnel
    standing = facts.standings.get(row.id, _USUAL)
    return NodeEntry(
        id=row.id,
        public_id=row.public_id,
        provider_id=row.provider_id,
        organization_id=owner.organization_id,
        node_class=row.node_class,
        country=row.country,
        region=row.region,
        generation=row.generation,
        share_bps=facts.shares.of(owner),
        trust_weight=standing.weight,
        models=row.models,
        models_without_tolerance=frozenset(standing.models_without_tolerance),
        models_with_hidden_cache=frozenset(standing.models_with_hidden_cache),
        tunnel=TunnelEntry(tunnel.process, tunnel.peer, tunnel.generation) if tunnel else None,
        is_routable=row.is_routable and owner.is_usable,
        is_private=row.is_private,
    )
