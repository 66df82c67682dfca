"""Row locks of this room."""

from collections.abc import Iterable
from typing import TypeVar

from portal.trust.models import CacheAudit, EngineAudit, TokenBias

_Judged = TypeVar("_Judged", CacheAudit, EngineAudit, TokenBias)


def token_biases(pairs: Iterable[tuple[int, int]]) -> list[TokenBias]:
    """Lock the sums of these nodes and models in the order of their ids."""
    return _of_pairs(TokenBias, set(pairs))


def engine_audits(pairs: Iterable[tuple[int, int]]) -> list[EngineAudit]:
    """Lock the audits of these nodes and models in the order of their ids."""
    return _of_pairs(EngineAudit, set(pairs))


def cache_audits(pairs: Iterable[tuple[int, int]]) -> list[CacheAudit]:
    """Lock the audits of these nodes and models in the order of their ids."""
    return _of_pairs(CacheAudit, set(pairs))


def _of_pairs(judged: type[_Judged], wanted: set[tuple[int, int]]) -> list[_Judged]:
    rows = judged.objects.filter(node__in={node for node, _ in wanted}, model__in={model for _, model in wanted})
    ids = [pk for pk, node, model in rows.values_list("pk", "node_id", "model_id") if (node, model) in wanted]
    return list(judged.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=ids).order_by("pk"))
