"""How fast models were measured on nodes, by kind and number of GPUs: medians, since each figure is a claim."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from poolhouse_common.planner import GpuKind, Speed, find_kind

from portal.nodes.models import CheckResult, Deployment, Node, NodeState, Verdict

_MOST_RESULTS = 5000
_PREFILL, _DECODE = "engine.prefill", "engine.decode"
_THOUSANDTHS = 1000

Key = tuple[str, int, str]


def measured_speeds(kinds: Iterable[GpuKind]) -> Mapping[Key, Speed]:
    """Return the median speeds by (kind of GPU, how many, model's public id), of nodes with GPUs of one kind."""
    known, found = list(kinds), defaultdict[Key, list[Speed]](list)
    results = _newest_results()
    rows = Deployment.objects.filter(node__in={node for node, _, _ in results}).select_related("model")
    spread = {(row.node_id, row.model.public_id): _ranks(row) for row in rows}
    names = _kinds_of_nodes({node for node, _, _ in results}, known)
    for (node, model), figures in _pairs(results).items():
        ranks, name = spread.get((node, model)), names.get(node)
        if ranks and name and _PREFILL in figures and _DECODE in figures:
            found[name, ranks, model].append(Speed(prefill=figures[_PREFILL], decode=figures[_DECODE]))
    return {key: _median(speeds) for key, speeds in found.items()}


def _newest_results() -> Mapping[tuple[int, str, str], int]:
    rows = CheckResult.objects.filter(
        check_id__in=[_PREFILL, _DECODE],
        verdict__in=[Verdict.PASS, Verdict.WARN],
        figure_milli__gt=0,
        node__is_simulated=False,
    ).exclude(node__state__in=[NodeState.SUSPENDED, NodeState.RETIRED])
    newest = rows.order_by("node_id", "check_id", "subject", "-at").distinct("node_id", "check_id", "subject")
    values = newest.values_list("node_id", "subject", "check_id", "figure_milli")[:_MOST_RESULTS]
    return {(node, model, check): milli or 0 for node, model, check, milli in values}


def _pairs(results: Mapping[tuple[int, str, str], int]) -> Mapping[tuple[int, str], Mapping[str, float]]:
    found = defaultdict[tuple[int, str], dict[str, float]](dict)
    for (node, model, check), milli in results.items():
        found[node, model][check] = milli / _THOUSANDTHS
    return found


def _kinds_of_nodes(nodes: set[int], kinds: list[GpuKind]) -> Mapping[int, str]:
    """Return the kind of each node's GPUs; nodes with several kinds, or an unknown one, are left out."""
    found = defaultdict[int, set[str]](set)
    for node in Node.objects.filter(pk__in=nodes).prefetch_related("gpus"):
        for gpu in node.gpus.all():
            kind = find_kind(gpu.name, kinds) if gpu.is_present else None
            found[node.pk].add(kind.name if kind else "")
    return {node: next(iter(names)) for node, names in found.items() if len(names) == 1 and "" not in names}


def _ranks(row: Deployment) -> int:
    """Over how many GPUs the deployment goes: its own settings stand before the model's."""
    asked = row.settings.get("tensor_parallel_size") or row.model.engine_args.get("tensor_parallel_size", 1)
    return asked if isinstance(asked, int) else 1


def _median(speeds: list[Speed]) -> Speed:
    return Speed(prefill=median(one.prefill for one in speeds), decode=median(one.decode for one in speeds))
