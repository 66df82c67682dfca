"""Entries of the gateway's snapshot, with values that each test overrides where it cares."""

import hashlib
from typing import Any

from portal.billing.rules.leasing import Ask
from portal.gateway.contracts import Drawn, Hold, KeyEntry, ModelEntry, NodeEntry, PriceEntry, Snapshot, TunnelEntry
from portal.gateway.lease_pool import Fetched
from portal.gateway.purse import Purse, Standing

KEY_TEXT = "sk-pool-testkey-0123456789"


def key_entry(**values: Any) -> KeyEntry:
    defaults: dict[str, Any] = {
        "id": 1,
        "public_id": "testkey",
        "organization_id": 10,
        "organization": "org_customer",
        "is_organization_active": True,
        "node_classes": frozenset({"house", "contracted"}),
        "tools_on_any_class": False,
        "expires_at": None,
        "is_revoked": False,
    }
    return KeyEntry(**defaults | values)


def price_entry(**values: Any) -> PriceEntry:
    defaults: dict[str, Any] = {
        "id": 1,
        "version": 1,
        "prompt_nano_per_mtok": 1_000_000_000,
        "cached_nano_per_mtok": 500_000_000,
        "completion_nano_per_mtok": 2_000_000_000,
        "request_nano": 0,
        "effective_from": 0.0,
    }
    return PriceEntry(**defaults | values)


def model_entry(**values: Any) -> ModelEntry:
    defaults: dict[str, Any] = {
        "id": 1,
        "public_id": "acme/chat-8b",
        "name": "Chat 8B",
        "state": "active",
        "context_tokens": 4_096,
        "max_output_tokens": 1_024,
        "default_output_tokens": 256,
        "message_overhead_bytes": 40,
        "request_overhead_bytes": 30,
        "end_tokens": 1,
        "supported_parameters": frozenset({"tools", "response_format", "top_k"}),
        "first_token_timeout_s": 60,
        "quantization": "",
        "tokenizer_sha256": None,
        "template_sha256": None,
        "created_at": 0.0,
        "deprecates_at": None,
        "prices": (price_entry(),),
    }
    return ModelEntry(**defaults | values)


def node_entry(**values: Any) -> NodeEntry:
    number = values.get("id", 1)
    defaults: dict[str, Any] = {
        "id": number,
        "public_id": f"node_{number}",
        "provider_id": 5,
        "organization_id": 20,
        "node_class": "contracted",
        "country": "DE",
        "region": "eu",
        "generation": 1,
        "share_bps": 8_000,
        "trust_weight": 1.0,
        "models": {1: 4},
        "models_without_tolerance": frozenset(),
        "tunnel": TunnelEntry(process="gateway@0.host", peer="/nowhere.sock", generation=1),
    }
    return NodeEntry(**defaults | values)


def snapshot(*nodes: NodeEntry, key: KeyEntry | None = None, model: ModelEntry | None = None) -> Snapshot:
    offered = model or model_entry()
    serving = tuple(node for node in nodes if offered.id in node.models)
    return Snapshot(
        keys={hashlib.sha256(KEY_TEXT.encode()).digest(): key or key_entry()},
        models={offered.public_id: offered},
        nodes={node.id: node for node in nodes},
        nodes_by_model={offered.id: serving},
    )


class NoMoney:
    """A source of leases that has nothing to give: for holds that are made by hand."""

    async def fetch(self, ask: Ask) -> tuple[list[Fetched], Standing]:
        raise AssertionError("a hold made by hand is not extended")

    async def shrink(self, lease_id: int, keep_nano: int) -> int:
        raise AssertionError("a hold made by hand returns nothing")

    async def call_in(self) -> None:
        raise AssertionError("a hold made by hand calls nothing in")


def a_hold(*, nano: int = 1, organization_id: int = 10) -> Hold:
    """Return an open hold on one lease; needs a running event loop."""
    purse = Purse(NoMoney())
    purse.pool.absorb([Fetched(1, nano, float("inf"))])
    return Hold(nano, organization_id, Drawn(purse, purse.take(nano, 0.0) or []))
