"""Why no node can serve a request now, in words that say what helps."""

from collections.abc import Mapping
from typing import Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import UNAVAILABLE, ApiError

# In the order of what helps soonest: the first reason that any node gave is the answer's.
_REASONS: Final = {
    "full": ("its nodes are full; retry, or send fewer requests at once", 1.0),
    "busy": ("its nodes are busy; retry", 1.0),
    "breaker": ("its nodes have failed and are being probed; retry, or use another model", 5.0),
    "not_ready": ("its nodes are starting; retry", 5.0),
    "tunnel": ("its nodes are not connected; retry, or use another model", 5.0),
    "tools": ("no house or contracted node, which tools need, runs it; allow tools on any class for the key", 30.0),
    "region": ("no node in the countries this key allows runs it; allow more countries for the key", 30.0),
    "class": ("no node of the classes this key allows runs it; allow more classes for the key", 30.0),
    "price": ("the price of your private nodes has changed; accept it on the page of your private nodes", 60.0),
    "trust": ("its nodes are not trusted now; use another model", 60.0),
    "own": ("the only nodes that run it belong to your own organization, which cannot pay itself; use another", 60.0),
    "tried": ("every node that could serve it has been tried; retry", 1.0),
    "private": ("this key uses private nodes only, and none of yours runs it; allow the key to use the pool", 30.0),
}
_PASSING: Final = frozenset({"full", "busy"})
_NO_NODE: Final = ("no node runs it now; use another model", 30.0)
_MOST_S: Final = 60.0


class NoCapacity(ApiError):
    """No node can take the request now. `may_wait`: some could, were they not full or busy."""

    def __init__(self, model: ModelEntry, refused: Mapping[str, int], *, soonest_s: float | None = None) -> None:
        reason = next((name for name in _REASONS if refused.get(name)), "none")
        text, retry_after_s = _REASONS.get(reason, _NO_NODE)
        if soonest_s is not None and reason in {"busy", "breaker"}:
            retry_after_s = min(max(soonest_s, 0.1), _MOST_S)
        message = f"{model.public_id}: {text}."
        super().__init__(503, UNAVAILABLE, "no_capacity", message, retry_after_s=retry_after_s)
        self.reason = reason
        self.refused = dict(refused)
        self.soonest_s = soonest_s

    @property
    def may_wait(self) -> bool:
        """Whether a place may come free soon: what could never be served is refused at once."""
        return self.reason in _PASSING
