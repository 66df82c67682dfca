"""Whether a model has too few nodes, or could spare one: with memory between rounds, so that nothing flaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.nodes.rules.placement_facts import DeploymentFact, ModelFact, NodeFact, Policy

# Loading a large model takes minutes; one that has not come after this long is no capacity to wait for.
_COMING_FOR = timedelta(minutes=30)
_PERCENT = 100
_COMING = frozenset({"pending", "starting"})


@dataclass(frozen=True, slots=True)
class Need:
    """What one model has and lacks. `code` says why it is short, empty where it is not; `urgency` orders short ones."""

    model_id: int
    ready: int
    coming: int
    places: int
    busy: int
    tokens_a_minute: int
    refused: int
    code: str
    missing: int
    short_since: datetime | None
    idle_since: datetime | None
    is_due: bool
    is_spare: bool

    @property
    def load_percent(self) -> int:
        """How full its places are; 0 where there are none."""
        return self.busy * _PERCENT // self.places if self.places else 0

    @property
    def urgency(self) -> tuple[bool, int, int, int]:
        """What is short of the operator's minimum first, then what refuses most, then what is fullest."""
        return (self.code == "below_minimum", self.refused, self.load_percent, self.tokens_a_minute)


def assess(*, model: ModelFact, nodes: Sequence[NodeFact], policy: Policy, now: datetime) -> Need:
    """Return what the model has and lacks now, carrying on what the model's fact remembers."""
    placed = [one for node in nodes if node.counts for one in node.deployments if one.model_id == model.id]
    ready = [one for one in placed if one.is_wanted and one.observed == "ready"]
    coming = [one for one in placed if _is_coming(one, now)]
    places = sum(one.max_concurrency for one in ready)
    busy = sum(one.running + one.waiting for one in ready)
    code, missing = _shortage(model, len(ready), len(coming), busy=busy, places=places, policy=policy)
    short_since = (model.short_since or now) if code else None
    idle_since = (model.idle_since or now) if _is_idle(model, ready, busy, places, policy) and not code else None
    return Need(
        model_id=model.id,
        ready=len(ready),
        coming=len(coming),
        places=places,
        busy=busy,
        tokens_a_minute=model.demand.tokens_a_minute,
        refused=model.demand.refused,
        code=code,
        missing=missing,
        short_since=short_since,
        idle_since=idle_since,
        is_due=short_since is not None and now - short_since >= policy.short_for,
        is_spare=idle_since is not None and now - idle_since >= policy.idle_for,
    )


def _shortage(model: ModelFact, ready: int, coming: int, *, busy: int, places: int, policy: Policy) -> tuple[str, int]:
    """Return why the model is short, and by how many nodes: beyond the minimum one at a time, none while one comes."""
    have = ready + coming
    if have < model.minimum:
        return "below_minimum", model.minimum - have
    if coming or (model.maximum is not None and have >= model.maximum):
        return "", 0
    if not ready:
        is_asked_for = model.demand.refused > 0 or model.demand.tokens_a_minute > 0
        return ("no_node_serves", 1) if is_asked_for else ("", 0)
    if model.demand.refused:
        return "requests_refused", 1
    return ("nodes_full", 1) if busy * _PERCENT >= places * policy.grow_at_percent else ("", 0)


def _is_idle(model: ModelFact, ready: Sequence[DeploymentFact], busy: int, places: int, policy: Policy) -> bool:
    """Tell whether one node fewer would do, by a wide margin."""
    if len(ready) <= model.minimum or model.demand.refused:
        return False
    if len(ready) <= 1:
        return busy == 0 and model.demand.tokens_a_minute == 0
    left = places - max(one.max_concurrency for one in ready)
    is_calm = busy * _PERCENT <= places * policy.shrink_at_percent
    return is_calm and busy * _PERCENT < left * policy.grow_at_percent


def _is_coming(one: DeploymentFact, now: datetime) -> bool:
    is_fresh = one.since is not None and now - one.since < _COMING_FOR
    return one.is_wanted and one.observed in _COMING and is_fresh
