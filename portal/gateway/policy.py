"""What a key may be used for, asked before any money is held."""

from portal.gateway.addresses import Address
from portal.gateway.contracts import OPEN_POLICY, KeyEntry, ModelEntry
from portal.gateway.errors import PERMISSION, ApiError


def require_address(key: KeyEntry, address: Address | None) -> None:
    """Refuse a caller outside the key's networks. Raises ApiError ip_not_allowed."""
    networks = key.policy.networks
    if not networks or (address is not None and any(address in network for network in networks)):
        return
    if address is None:
        message = "This API key works from certain networks only, and nobody trustworthy tells your address."
    else:
        message = f"This API key may not be used from {address}: add its network to the key, or use another key."
    raise ApiError(403, PERMISSION, "ip_not_allowed", message)


def require(key: KeyEntry, *, model: ModelEntry, has_tools: bool) -> None:
    """Refuse what the key may not ask for. Raises ApiError model_not_allowed or tools_not_allowed."""
    policy = key.policy
    if policy is OPEN_POLICY:
        return
    require_model(key, model.public_id)
    if has_tools and not policy.allows_tools:
        message = "This API key may not be used with tools: allow them on the key, or leave them out."
        raise ApiError(403, PERMISSION, "tools_not_allowed", message, param="tools")


def allows_model(key: KeyEntry, model: str) -> bool:
    """Tell whether the key may ask this model, named by its public id."""
    return key.policy.models is None or model in key.policy.models


def require_model(key: KeyEntry, model: str) -> None:
    """Refuse a model that is not the key's. Raises ApiError model_not_allowed."""
    if not allows_model(key, model):
        message = f"This API key may not use the model {model!r}; GET /v1/models lists those that it may."
        raise ApiError(403, PERMISSION, "model_not_allowed", message, param="model")
