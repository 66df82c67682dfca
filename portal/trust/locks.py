"""Row locks of this room."""

from collections.abc import Iterable

from portal.trust.models import CacheAudit, EngineAudit, TokenBias


def token_biases(ids: Iterable[int]) -> list[TokenBias]:
    """Lock bias rows in the order of their ids."""
    rows = TokenBias.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=set(ids)).order_by("pk")
    return list(rows)


def engine_audits(pairs: Iterable[tuple[int, int]]) -> list[EngineAudit]:
    """Lock the audits of these nodes and models in the order of their ids."""
    wanted = set(pairs)
    rows = EngineAudit.objects.filter(node__in={node for node, _ in wanted}, model__in={model for _, model in wanted})
    ids = [pk for pk, node, model in rows.values_list("pk", "node_id", "model_id") if (node, model) in wanted]
    return list(EngineAudit.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=ids).order_by("pk"))


def cache_audits(pairs: Iterable[tuple[int, int]]) -> list[CacheAudit]:
    """Lock the audits of these nodes and models in the order of their ids."""
    wanted = set(pairs)
    rows = CacheAudit.objects.filter(node__in={node for node, _ in wanted}, model__in={model for _, model in wanted})
    ids = [pk for pk, node, model in rows.values_list("pk", "node_id", "model_id") if (node, model) in wanted]
    return list(CacheAudit.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=ids).order_by("pk"))
