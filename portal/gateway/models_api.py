"""GET /v1/models and /v1/models/{id}: what is offered, at which price, and whether a node is ready for it."""

from dataclasses import dataclass
from typing import Any, Final

from portal.billing.rules.price_choice import in_force
from portal.core.money import decimal_text, per_token_text
from portal.gateway import model_card, policy
from portal.gateway.candidates import private_price, usual_price
from portal.gateway.contracts import KeyEntry, ModelEntry, NodeEntry, PriceEntry, Snapshot
from portal.gateway.errors import INVALID_REQUEST, ApiError

_OFFERED: Final = frozenset({"active", "deprecated"})


def price_now(model: ModelEntry, *, now: float) -> PriceEntry | None:
    """Return the price that holds at `now` (Unix seconds), None where the model has none yet."""
    return in_force(model.prices, at=now)


def listing(snapshot: Snapshot, key: KeyEntry, *, now: float) -> dict[str, Any]:
    """Return the list of models that the key may call."""
    offered = [
        _entry(model, _offer(model, price, snapshot, key, now=now))
        for model in sorted(snapshot.models.values(), key=lambda model: model.public_id)
        if model.state in _OFFERED
        and policy.allows_model(key, model.public_id)
        and (price := price_now(model, now=now)) is not None
    ]
    return {"object": "list", "data": offered}


def single(model_id: str, snapshot: Snapshot, key: KeyEntry, *, now: float) -> dict[str, Any]:
    """Return one model. Raises ApiError model_not_found or model_not_allowed."""
    model, price = find(model_id, snapshot, now=now)
    policy.require_model(key, model.public_id)
    return _entry(model, _offer(model, price, snapshot, key, now=now))


def find(model_id: str, snapshot: Snapshot, *, now: float) -> tuple[ModelEntry, PriceEntry]:
    """Return the model and its price now. Raises ApiError model_not_found; what has no price is not offered."""
    model = snapshot.models.get(model_id)
    price = price_now(model, now=now) if model is not None and model.state in _OFFERED else None
    if model is None or price is None:
        message = f"The model {model_id[:96]!r} does not exist here; GET /v1/models lists those that do."
        raise ApiError(404, INVALID_REQUEST, "model_not_found", message, param="model")
    return model, price


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a key gets of a model: its nodes, the public price, what its organization pays in the public pool, and what
    its private nodes cost."""

    nodes: list[NodeEntry]
    public: PriceEntry
    usual: PriceEntry
    private: PriceEntry | None


def _offer(model: ModelEntry, public: PriceEntry, snapshot: Snapshot, key: KeyEntry, *, now: float) -> _Offer:
    usual = usual_price(public, key=key, model=model, snapshot=snapshot, at=now)
    rows = snapshot.private_nodes.get((key.organization_id, model.id), ())
    priced = [(row.node, private_price(row, usual, at=now)) for row in rows if _is_allowed(row.node, key)]
    usable = [(node, price) for node, price in priced if price is not None]
    nodes = [node for node, _ in usable]
    if not key.policy.is_private_only:
        nodes += [node for node in snapshot.nodes_by_model.get(model.id, ()) if _is_allowed(node, key)]
    dearest = max((price for _, price in usable), key=_dearness, default=None)
    return _Offer(nodes, public, usual, dearest)


def _is_allowed(node: NodeEntry, key: KeyEntry) -> bool:
    countries = key.policy.countries
    return node.node_class in key.node_classes and (countries is None or node.country in countries)


def _dearness(price: PriceEntry) -> tuple[int, int, int]:
    return price.completion_nano_per_mtok, price.prompt_nano_per_mtok, price.request_nano


def _pricing(price: PriceEntry) -> dict[str, str]:
    return {
        "prompt": per_token_text(price.prompt_nano_per_mtok),
        "completion": per_token_text(price.completion_nano_per_mtok),
        "input_cache_read": per_token_text(price.cached_nano_per_mtok),
        "request": decimal_text(price.request_nano),
    }


def _entry(model: ModelEntry, offer: _Offer) -> dict[str, Any]:
    """Describe the model; where the organization has private nodes theirs is its price, else what was agreed with it,
    and the other prices stand beside it."""
    countries = sorted({node.country for node in offer.nodes if node.country})
    described = model_card.describe(model) | {
        "pricing": _pricing(offer.private or offer.usual),
        "datacenters": [{"country_code": country} for country in countries],
        "is_ready": any(node.tunnel is not None for node in offer.nodes),
    }
    if offer.private is not None or offer.usual is not offer.public:
        described["public_pricing"] = _pricing(offer.public)
    if offer.private is not None and offer.usual is not offer.public:
        described["agreed_pricing"] = _pricing(offer.usual)
    return described
