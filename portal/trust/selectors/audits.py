"""What the pool saw of a node's figures, as the pages of the operator and of the provider show it."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Sum

from portal.nodes.models import Node
from portal.trust.models import CacheAudit, EngineAudit, EngineMinute, TokenBias
from portal.trust.rules import bias, cache, engine_counters
from portal.trust.rules.bias import Sums
from portal.trust.rules.cache import Cached
from portal.trust.rules.verdicts import Audit, Verdict, meaning

_SHOWN_MINUTES: Final = timedelta(minutes=10)
_SHOWN_MODELS = 50


@dataclass(frozen=True, slots=True)
class Figure:
    """One pair of sums; `limit` is the most (for cached tokens the least) that the node may say beside `seen`."""

    what: str
    said: int
    seen: int
    limit: int


@dataclass(frozen=True, slots=True)
class Minute:
    """What was said in one minute, and what the engine counted; None where it could not be read."""

    at: datetime
    said_prompt: int
    seen_prompt: int | None
    said_completion: int
    seen_completion: int | None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One audit of one model: its figures, the verdict and since when it has stood."""

    audit: Audit
    model: str
    model_id: str
    against: str
    verdict: Verdict
    meaning: str
    figures: list[Figure]
    changed_at: datetime | None
    restarts: int = 0
    minutes: list[Minute] = field(default_factory=list)

    @property
    def is_judged(self) -> bool:
        """Whether enough was seen for the limits to count."""
        return self.verdict != Verdict.UNMEASURED

    @property
    def is_floor(self) -> bool:
        """Whether the limits are the least that the node may say."""
        return self.audit == Audit.CACHE


def audits_of(*, node: Node, now: datetime) -> list[AuditRow]:
    """Return the node's audits by model: our own count, the engine's counters, the prefix cache."""
    rows = [*_counts(node), *_engines(node, now), *_caches(node)]
    order = list(Audit)
    return sorted(rows, key=lambda row: (row.model, row.model_id, order.index(row.audit)))


def _counts(node: Node) -> list[AuditRow]:
    rows = list(TokenBias.objects.filter(node=node).select_related("model").order_by("id")[:_SHOWN_MODELS])
    others = _others_counts(node, [row.model_id for row in rows])
    return [_count_row(row, *others.get(row.model_id, (Sums(), Sums()))) for row in rows]


def _count_row(row: TokenBias, other_prompts: Sums, other_completions: Sums) -> AuditRow:
    prompt = Sums(row.claimed_prompt_tokens, row.counted_prompt_tokens)
    completion = Sums(row.claimed_completion_tokens, row.counted_completion_tokens, row.allowed_tokens)
    verdict = Verdict.IN_ORDER if prompt.is_measured or completion.is_measured else Verdict.UNMEASURED
    figures = [
        Figure(what, own.claimed, own.counted, bias.most_claimable(own=own, others=others))
        for what, own, others in (
            ("Prompt", prompt, other_prompts),
            ("Completion", completion, other_completions),
        )
    ]
    return _row(row, Audit.COUNT, verdict if row.has_tolerance else Verdict.TOO_MANY, figures)


def _others_counts(node: Node, models: list[int]) -> dict[int, tuple[Sums, Sums]]:
    rows = (
        TokenBias.objects.filter(model__in=models)
        .exclude(node=node)
        .values("model_id")
        .annotate(
            claimed_prompt=Sum("claimed_prompt_tokens"),
            counted_prompt=Sum("counted_prompt_tokens"),
            claimed_completion=Sum("claimed_completion_tokens"),
            counted_completion=Sum("counted_completion_tokens"),
            allowed=Sum("allowed_tokens"),
        )
        .order_by("model_id")
    )
    return {
        row["model_id"]: (
            Sums(row["claimed_prompt"], row["counted_prompt"]),
            Sums(row["claimed_completion"], row["counted_completion"], row["allowed"]),
        )
        for row in rows
    }


def _engines(node: Node, now: datetime) -> list[AuditRow]:
    rows = EngineAudit.objects.filter(node=node).select_related("model").order_by("id")[:_SHOWN_MODELS]
    minutes = _minutes(node, now)
    return [_engine_row(row, minutes[row.pk]) for row in rows]


def _engine_row(row: EngineAudit, minutes: list[Minute]) -> AuditRow:
    figures = [
        Figure(what, said, seen, engine_counters.most_claimable(seen))
        for what, said, seen in (
            ("Prompt", row.settled_prompt_tokens, row.engine_prompt_tokens),
            ("Completion", row.settled_completion_tokens, row.engine_completion_tokens),
        )
    ]
    is_measured = any(minute.seen_prompt is not None for minute in minutes) or any(figure.seen for figure in figures)
    verdict = Verdict.IN_ORDER if is_measured else Verdict.UNMEASURED
    return _row(
        row,
        Audit.ENGINE,
        Verdict.TOO_MANY if row.is_exceeded else verdict,
        figures,
        restarts=row.restarts,
        minutes=minutes,
    )


def _minutes(node: Node, now: datetime) -> dict[int, list[Minute]]:
    rows = EngineMinute.objects.filter(audit__node=node, minute__gt=now - _SHOWN_MINUTES, minute__lte=now)
    found: dict[int, list[Minute]] = defaultdict(list)
    for row in rows.order_by("-minute", "id"):
        found[row.audit_id].append(
            Minute(
                at=row.minute,
                said_prompt=row.claimed_prompt_tokens,
                seen_prompt=row.engine_prompt_tokens,
                said_completion=row.claimed_completion_tokens,
                seen_completion=row.engine_completion_tokens,
            )
        )
    return found


def _caches(node: Node) -> list[AuditRow]:
    rows = list(CacheAudit.objects.filter(node=node).select_related("model").order_by("id")[:_SHOWN_MODELS])
    sums = (
        CacheAudit.objects.filter(model__in=[row.model_id for row in rows])
        .exclude(node=node)
        .values("model_id")
        .annotate(expected=Sum("expected_tokens"), claimed=Sum("claimed_tokens"))
        .order_by("model_id")
    )
    others = {row["model_id"]: Cached(row["expected"], row["claimed"]) for row in sums}
    return [_cache_row(row, others.get(row.model_id, Cached())) for row in rows]


def _cache_row(row: CacheAudit, others: Cached) -> AuditRow:
    own = Cached(row.expected_tokens, row.claimed_tokens)
    figure = Figure("Reused prompt", own.claimed, own.expected, cache.least_claimable(own=own, others=others))
    verdict = Verdict.IN_ORDER if own.is_measured else Verdict.UNMEASURED
    return _row(row, Audit.CACHE, Verdict.TOO_FEW if row.hides_cache else verdict, [figure])


def _row(
    row: TokenBias | EngineAudit | CacheAudit,
    audit: Audit,
    verdict: Verdict,
    figures: list[Figure],
    *,
    restarts: int = 0,
    minutes: list[Minute] | None = None,
) -> AuditRow:
    return AuditRow(
        audit=audit,
        model=row.model.name,
        model_id=row.model.public_id,
        against=audit.against,
        verdict=verdict,
        meaning=meaning(audit, verdict),
        figures=figures,
        changed_at=row.changed_at,
        restarts=restarts,
        minutes=minutes or [],
    )
