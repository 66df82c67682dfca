"""Builds snapshots from the database, reading only the sections whose digests changed. Runs in one thread."""

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from portal.billing.models import PriceVersion
from portal.billing.selectors import for_gateway as prices
from portal.catalog.models import CatalogModel
from portal.catalog.selectors import for_gateway as models
from portal.gateway import snapshot_nodes
from portal.gateway.contracts import KeyEntry, ModelEntry, PriceEntry, Snapshot
from portal.gateway.snapshot_keys import KeySection
from portal.nodes.selectors import for_gateway as nodes
from portal.providers.selectors import for_gateway as providers
from portal.trust.selectors import for_gateway as trust

EMPTY: Final = Snapshot(keys={}, models={}, nodes={}, nodes_by_model={})


class SnapshotLoader:
    """Keeps what was read last and reads again what changed. `cost_s` is the processor time of the last load."""

    def __init__(self) -> None:
        self.cost_s = 0.0
        self._snapshot = EMPTY
        self._keys = KeySection()
        self._models_digest: object = None
        self._nodes_digest: object = None

    def load(self, *, now: datetime) -> Snapshot:
        """Return the snapshot of now; the same object where nothing changed. Raises django.db.Error."""
        began = time.thread_time()
        self._read_keys()
        self._read_models(now)
        self._read_nodes(now)
        self.cost_s = time.thread_time() - began
        return self._snapshot

    def _read_keys(self) -> None:
        keys = self._keys.load()
        if keys is not None:
            self._snapshot = replace(self._snapshot, keys=keys)

    def _read_models(self, now: datetime) -> None:
        digest = (models.models_digest(), prices.prices_digest(at=now))
        if digest == self._models_digest:
            return
        versions = prices.prices_from(at=now)
        entries = {row.public_id: _model(row, versions.get(row.pk, [])) for row in models.offered_models()}
        agreed = {whose: _entries(rows) for whose, rows in prices.own_prices_from(at=now).items()}
        self._models_digest = digest
        self._snapshot = replace(self._snapshot, models=entries, own_prices=agreed)

    def _read_nodes(self, now: datetime) -> None:
        digest = (
            nodes.nodes_digest(),
            providers.providers_digest(),
            prices.prices_digest(at=now),
            trust.standings_digest(now=now),
        )
        if digest == self._nodes_digest:
            return
        facts = snapshot_nodes.Facts(
            rows=nodes.nodes(),
            owners=providers.providers(),
            standings=trust.standings(now=now),
            shares=snapshot_nodes.Shares(*prices.shares_at(at=now)),
            private_prices=prices.private_prices(),
        )
        found = snapshot_nodes.fleet(facts)
        self._nodes_digest = digest
        self._snapshot = replace(
            self._snapshot,
            nodes=found.entries,
            nodes_by_model=found.public,
            private_nodes=found.private,
        )


def distrusting(snapshot: Snapshot, *, suspects: Iterable[str]) -> Snapshot:
    """Return the snapshot with those keys refused that changed, or whose project or organization did, unseen by us."""
    changed = frozenset(suspects)
    if not changed:
        return snapshot
    entries = {
        digest: replace(entry, is_revoked=True) if _names(entry) & changed else entry
        for digest, entry in snapshot.keys.items()
    }
    return replace(snapshot, keys=entries)


def _names(entry: KeyEntry) -> set[str | None]:
    return {entry.public_id, entry.organization, entry.project}


def _entries(versions: list[PriceVersion]) -> tuple[PriceEntry, ...]:
    return tuple(snapshot_nodes.price_entry(version) for version in versions)


def _model(row: CatalogModel, versions: list[PriceVersion]) -> ModelEntry:
    return ModelEntry(
        id=row.pk,
        public_id=row.public_id,
        name=row.name,
        state=row.state,
        context_tokens=row.context_tokens,
        max_output_tokens=row.max_output_tokens,
        default_output_tokens=row.default_output_tokens,
        message_overhead_bytes=row.message_overhead_bytes,
        request_overhead_bytes=row.request_overhead_bytes,
        end_tokens=row.end_tokens,
        supported_parameters=frozenset(row.supported_parameters),
        first_token_timeout_s=row.first_token_timeout_s,
        quantization=row.quantization,
        tokenizer_sha256=row.tokenizer_id,
        template_sha256=row.chat_template_id,
        created_at=row.created_at.timestamp(),
        deprecates_at=row.deprecates_at.timestamp() if row.deprecates_at else None,
        prices=_entries(versions),
        task=row.task,
        embedding_dimensions=row.embedding_dimensions,
        caches_prefixes=row.engine_args.get("enable_prefix_caching", True) is not False,
    )
