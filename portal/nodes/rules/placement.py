"""One round of placement: which models go where, which make room, and why every other pair of node and model was not.

A round moves little: a model that is short long enough gets one node more at a time, a node gets one move a round, and
a model is taken off a node only to make room for a short one, after its stay, where it has nodes to spare.
A person's choice is never touched. Whatever moves is drained first: stopping is asked for in one round, and the place
is given away in a later one, once the node says that the engine is gone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from portal.nodes.rules import fits, needs
from portal.nodes.rules.fits import Fit, Kinds, Misfit
from portal.nodes.rules.needs import Need
from portal.nodes.rules.placement_facts import DeploymentFact, GpuFact, ModelFact, NodeFact, Policy

FAILED_FOR = timedelta(hours=6)
_TRIES_FOR = timedelta(minutes=10)
_TAKES_MODELS = frozenset({"ready", "serving"})
_NOT_ALLOWED = frozenset({"provider_not_approved", "provider_suspended", "agreement_missing"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one model on one node: `action` is start, stop, keep or reject; `code` says why."""

    model: str
    action: str
    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """A model to start on a node."""

    node: NodeFact
    model: ModelFact
    fit: Fit
    code: str


@dataclass(frozen=True, slots=True)
class Stop:
    """A deployment to end: to make room for `room_for`, or because the model has more nodes than it may."""

    node: NodeFact
    model: ModelFact
    deployment: DeploymentFact
    code: str
    room_for: str = ""


@dataclass(slots=True)
class Round:
    """What a round decided. `verdicts` are by node id, those that matter most first."""

    needs: dict[int, Need]
    starts: list[Start] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    verdicts: dict[int, list[Verdict]] = field(default_factory=dict)

    @property
    def moved(self) -> set[int]:
        """The nodes that this round changes."""
        return {start.node.id for start in self.starts} | {stop.node.id for stop in self.stops}

    @property
    def moves(self) -> int:
        """How many changes there are."""
        return len(self.starts) + len(self.stops)


@dataclass(frozen=True, slots=True)
class Gpus:
    """A node's GPUs by kind: all of them, and those that nothing holds."""

    whole: Kinds
    free: Kinds


@dataclass(frozen=True, slots=True)
class Table:
    """All that a round looks at. A brief one gives verdicts on the models that are short alone."""

    nodes: Sequence[NodeFact]
    models: Sequence[ModelFact]
    policy: Policy
    now: datetime
    is_brief: bool = False

    def placed(self) -> Iterator[tuple[NodeFact, DeploymentFact]]:
        """Every deployment that automatic placement asked for and still wants."""
        for node in self.nodes:
            for one in node.deployments:
                if one.is_wanted and not one.is_persons:
                    yield node, one

    def model(self, model_id: int) -> ModelFact | None:
        """The model, or None where it may not be placed any more."""
        return next((model for model in self.models if model.id == model_id), None)


def decide(table: Table) -> Round:
    """Return the round's moves, and the verdict on every pair of a node and a model."""
    found = Round({
        model.id: needs.assess(model=model, nodes=table.nodes, policy=table.policy, now=table.now)
        for model in table.models
    })  # fmt: skip
    _give_up(table, found)
    for model in table.models:
        _take_off(model, table, found)
    short = [need for need in found.needs.values() if need.is_due]
    for need in sorted(short, key=lambda need: need.urgency, reverse=True):
        if wanted := table.model(need.model_id):
            _serve(wanted, need, table, found)
    for node in table.nodes:
        found.verdicts[node.id] = _verdicts(node, table, found)
    return found


def free_gpus(node: NodeFact) -> list[GpuFact]:
    """Return the node's GPUs that no deployment holds or may still hold."""
    holding = [one for one in node.deployments if one.holds_gpus]
    named = {uuid for one in holding for uuid in one.gpu_uuids}
    free = [one for one in node.gpus if one.uuid not in named]
    unnamed = sum(one.gpus for one in holding if not one.gpu_uuids)
    return free[: max(0, len(free) - unnamed)]


def refusal(node: NodeFact, model: ModelFact, *, now: datetime) -> Misfit | None:
    """Return why the node takes no such model whatever its GPUs are, or None where it might."""
    if not node.is_automatic:
        return Misfit("placement_provider_chooses")
    if node.state not in _TAKES_MODELS or node.state_code in _NOT_ALLOWED:
        return Misfit(node.state_code or node.state)
    for one in node.deployments:
        if one.model_id == model.id and (one.is_wanted or one.is_persons or one.holds_gpus):
            return _of_deployment(one)
    failure = node.failures.get(model.id)
    if failure and now - failure.at < FAILED_FOR:
        return Misfit("placement_failed_here", f"{failure.code}, until {failure.at + FAILED_FOR:%H:%M} UTC")
    return None


def _of_deployment(one: DeploymentFact) -> Misfit:
    if one.is_wanted:
        return Misfit("placement_person_runs" if one.is_persons else "placement_keeps")
    return Misfit("placement_person_stopped" if one.is_persons else "placement_draining")


def _give_up(table: Table, found: Round) -> None:
    """End what could not be started where it was placed; another node may take it."""
    for node, one in table.placed():
        has_tried = one.since is not None and table.now - one.since >= _TRIES_FOR
        model = table.model(one.model_id)
        is_open = node.id not in found.moved and found.moves < table.policy.moves_a_round
        if one.observed == "failed" and has_tried and model is not None and is_open:
            found.stops.append(Stop(node, model, one, "placement_failed_here"))


def _take_off(model: ModelFact, table: Table, found: Round) -> None:
    """End the least busy automatic deployment of a model that has more nodes than the operator wants."""
    need = found.needs[model.id]
    if model.maximum is None or need.ready + need.coming <= model.maximum:
        return
    options = [
        (one.running + one.waiting, node.id, Stop(node, model, one, "placement_beyond_maximum"))
        for node, one in table.placed()
        if one.model_id == model.id and node.id not in found.moved
    ]
    if options and found.moves < table.policy.moves_a_round:
        found.stops.append(min(options, key=lambda option: option[:2])[2])


def _serve(model: ModelFact, need: Need, table: Table, found: Round) -> None:
    """Give a short model its missing nodes: free ones first, else make room on one."""
    for _ in range(need.missing):
        if found.moves >= table.policy.moves_a_round:
            return
        open_nodes = [
            node for node in table.nodes if node.id not in found.moved and refusal(node, model, now=table.now) is None
        ]
        if start := _best_start(model, open_nodes, table, found):
            found.starts.append(start)
        elif stop := _best_room(model, open_nodes, table, found):
            found.stops.append(stop)
        else:
            return


def _best_start(model: ModelFact, open_nodes: Iterable[NodeFact], table: Table, found: Round) -> Start | None:
    """Return the start at the provider that has fewest of this model, on the smallest GPUs that do."""
    having = _providers_of(model, table, found)
    options: list[tuple[tuple[int, int, int], Start]] = []
    for node in open_nodes:
        fit = fits.fit(model=model, node=node, gpus=fits.kinds(free_gpus(node)))
        if isinstance(fit, Fit):
            order = (having[node.provider_id], fit.memory_bytes, node.id)
            options.append((order, Start(node, model, fit, found.needs[model.id].code)))
    return min(options, key=lambda option: option[0])[1] if options else None


def _providers_of(model: ModelFact, table: Table, found: Round) -> Counter[int]:
    """How many nodes with this model each provider has, those of this round included."""
    placed = [
        node.provider_id
        for node in table.nodes
        if any(one.is_wanted and one.model_id == model.id for one in node.deployments)
    ]
    return Counter([*placed, *(start.node.provider_id for start in found.starts if start.model.id == model.id)])


def _best_room(model: ModelFact, open_nodes: Iterable[NodeFact], table: Table, found: Round) -> Stop | None:
    """Return the deployment whose end lets the model in and hurts least: the one with the fewest requests."""
    options: list[tuple[tuple[int, int, int], Stop]] = []
    for node in open_nodes:
        for one in node.deployments:
            gone = table.model(one.model_id)
            if gone is not None and _may_go(one, table, found) and _lets_in(model, node, one):
                stop = Stop(node, gone, one, "placement_makes_room", room_for=model.public_id)
                options.append(((one.running + one.waiting, len(one.gpu_uuids) or one.gpus, node.id), stop))
    return min(options, key=lambda option: option[0])[1] if options else None


def _may_go(one: DeploymentFact, table: Table, found: Round) -> bool:
    """Tell whether it was placed automatically, has stayed long enough, and its model has a node to spare."""
    has_stayed = one.since is not None and table.now - one.since >= table.policy.stay
    is_going = any(stop.model.id == one.model_id for stop in found.stops)
    return one.is_wanted and not one.is_persons and has_stayed and found.needs[one.model_id].is_spare and not is_going


def _lets_in(model: ModelFact, node: NodeFact, one: DeploymentFact) -> bool:
    """Tell whether the model fits once this deployment is gone."""
    others = replace(node, deployments=tuple(other for other in node.deployments if other is not one))
    return isinstance(fits.fit(model=model, node=node, gpus=fits.kinds(free_gpus(others))), Fit)


def _verdicts(node: NodeFact, table: Table, found: Round) -> list[Verdict]:
    """Return what to tell of the node: its moves, what stays, then why the rest was rejected, short models first."""
    if not node.is_automatic:
        return [Verdict("", "reject", "placement_provider_chooses")]
    free, whole = free_gpus(node), fits.kinds(node.gpus)
    gpus = Gpus(whole, whole if len(free) == len(node.gpus) else fits.kinds(free))
    moved = _moves_of(node, found)
    short = {model.public_id for model in table.models if found.needs[model.id].code}
    models = [model for model in table.models if not table.is_brief or model.public_id in short]
    told = [moved.get(model.id) or _verdict(node, model, found, gpus, now=table.now) for model in models]
    order = {"stop": 0, "start": 1, "keep": 2, "reject": 3}
    return sorted(told, key=lambda one: (order[one.action], one.model not in short, one.model))


def _moves_of(node: NodeFact, found: Round) -> dict[int, Verdict]:
    """The verdicts on the models that this round starts or stops on the node."""
    starts = {
        start.model.id: Verdict(start.model.public_id, "start", "placement_starts", REASONS[start.code])
        for start in found.starts
        if start.node.id == node.id
    }
    stops = {
        stop.model.id: Verdict(stop.model.public_id, "stop", stop.code, stop.room_for or stop.deployment.code)
        for stop in found.stops
        if stop.node.id == node.id
    }
    return starts | stops


def _verdict(node: NodeFact, model: ModelFact, found: Round, gpus: Gpus, *, now: datetime) -> Verdict:
    """Why the model stays, or is not placed, on the node."""
    if misfit := refusal(node, model, now=now):
        is_kept = misfit.code in {"placement_keeps", "placement_person_runs"}
        return Verdict(model.public_id, "keep" if is_kept else "reject", misfit.code, misfit.detail)
    return _of_gpus(node, model, found, gpus)


def _of_gpus(node: NodeFact, model: ModelFact, found: Round, gpus: Gpus) -> Verdict:
    """Why a node that might take the model does not: its GPUs, or that nothing wants it there."""
    name, need = model.public_id, found.needs[model.id]
    whole = fits.fit(model=model, node=node, gpus=gpus.whole)
    if isinstance(whole, Misfit):
        return Verdict(name, "reject", whole.code, whole.detail)
    if gpus.free is not gpus.whole and isinstance(fits.fit(model=model, node=node, gpus=gpus.free), Misfit):
        return Verdict(name, "reject", "placement_gpus_taken")
    if not need.code:
        is_full = model.maximum is not None and need.ready + need.coming >= model.maximum
        return Verdict(name, "reject", "placement_at_maximum" if is_full else "placement_no_need")
    if not need.is_due:
        return Verdict(name, "reject", "placement_waits", REASONS[need.code])
    return Verdict(name, "reject", "placement_elsewhere", REASONS[need.code])


REASONS: Mapping[str, str] = {
    "below_minimum": "fewer nodes than the operator wants",
    "no_node_serves": "it is asked for and no node serves it",
    "requests_refused": "requests found no place",
    "nodes_full": "its nodes are nearly full",
}
