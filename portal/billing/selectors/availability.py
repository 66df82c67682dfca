"""What decides availability pay: rates, nodes that may have it, their states in an hour, their verified GPUs."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, F, Q, QuerySet, Sum
from poolhouse_common import checks, planner
from poolhouse_common.check import Subject

from portal.billing.models import AvailabilityHour, AvailabilityRate, RelatedPair
from portal.billing.rules.availability import HOUR, GpuPay, Move, rate_of
from portal.catalog.selectors.shapes import gpu_kinds
from portal.nodes.models import CheckResult, Gpu, Node, NodeClass, NodeEvent, Verdict
from portal.providers.models import Provider, ProviderKind, ProviderState

_MOST = 5000
_MEASURED: Final = tuple(
    sorted(check.id for check in checks.CHECKS.values() if check.subject == Subject.GPU and check.is_compared)
)


@dataclass(frozen=True, slots=True)
class PaidDay:
    """What a provider was paid for one node's readiness on one UTC day."""

    node: str
    hours: int
    gpu_minutes: int
    amount_nano: int


def rates_at(*, at: datetime) -> dict[str, int]:
    """Return nano a GPU-minute by kind ("" stands for all others) in force at `at`."""
    rows = AvailabilityRate.objects.filter(effective_from__lte=at)
    newest = rows.order_by("gpu_kind", "-effective_from", "-id").distinct("gpu_kind")
    return {row.gpu_kind: row.nano_per_minute for row in newest}


def rate_history(*, limit: int = 100) -> QuerySet[AvailabilityRate]:
    """Return all rates, newest first."""
    return AvailabilityRate.objects.order_by("-effective_from", "gpu_kind", "-id")[:limit]


def first_rate_at() -> datetime | None:
    """Return when the first rate began, None where there is none."""
    first = AvailabilityRate.objects.filter(nano_per_minute__gt=0).order_by("effective_from").first()
    return first.effective_from if first else None


def unpaid_nodes(*, hour: datetime) -> list[Node]:
    """Return the nodes that may be paid for the hour and are not yet, by primary key.

    Left out are house, unidentified, private and simulated nodes, providers that are not approved, and those who count
    as one party with the operator's own organizations.
    """
    related = _related_to_house()
    rows = Node.objects.filter(
        node_class__in=[NodeClass.CONTRACTED, NodeClass.COMMUNITY],
        is_private=False,
        is_simulated=False,
        provider__state=ProviderState.APPROVED,
        provider__is_identified=True,
        enrolled_at__lt=hour + HOUR,
    )
    rows = rows.exclude(provider__kind=ProviderKind.HOUSE).exclude(provider__organization__in=related)
    paid = AvailabilityHour.objects.filter(hour=hour).values("node_id")
    return list(rows.exclude(pk__in=paid).select_related("provider").order_by("pk")[:_MOST])


def moves(*, node_ids: Collection[int], hour: datetime) -> dict[int, list[Move]]:
    """Return by node how it stood when the hour began and each move within it, in order."""
    rows = NodeEvent.objects.filter(node__in=node_ids)
    before = rows.filter(at__lte=hour).order_by("node_id", "-at", "-id").distinct("node_id")
    within = rows.filter(at__gt=hour, at__lt=hour + HOUR).order_by("at", "id")
    found: dict[int, list[Move]] = {}
    for row in [*before, *within]:
        found.setdefault(row.node_id, []).append(Move(row.at, row.to_state, row.code))
    return found


def verified_gpus(*, node_ids: Collection[int], before: datetime, rates: dict[str, int]) -> dict[int, list[GpuPay]]:
    """Return by node the GPUs that have shown their work, each with its rate.

    A GPU counts where it is there without a fault, its newest measurements passed, and no other node reports it too.
    """
    rows = Gpu.objects.filter(node__in=node_ids, is_present=True, fault_code="", unread_code="")
    gpus = list(rows.order_by("node_id", "index", "id"))
    twins = _twins({gpu.uuid for gpu in gpus})
    proven = _proven(node_ids, before)
    kinds = gpu_kinds()
    found: dict[int, list[GpuPay]] = {}
    for gpu in gpus:
        if gpu.uuid not in twins and (gpu.node_id, gpu.uuid) in proven:
            kind = planner.find_kind(gpu.name, kinds)
            rate = rate_of(kind.name if kind else None, rates=rates)
            found.setdefault(gpu.node_id, []).append(GpuPay(gpu.uuid, rate))
    return found


def paid_days(*, provider: str, first: datetime, last: datetime) -> list[PaidDay]:
    """Return what the provider's nodes were paid between two moments, one row a node."""
    rows = AvailabilityHour.objects.filter(provider=provider, hour__gte=first, hour__lt=last).values("node")
    sums = rows.annotate(hours=Count("id"), amount=Sum("amount_nano")).order_by("node")
    minutes = _gpu_minutes(provider, first, last)
    return [PaidDay(row["node"], row["hours"], minutes.get(row["node"], 0), int(row["amount"])) for row in sums]


def paid_total(*, provider: str) -> int:
    """Return all that the provider was ever paid for readiness."""
    return int(AvailabilityHour.objects.filter(provider=provider).aggregate(sum=Sum("amount_nano", default=0))["sum"])


def paid_by_day(*, first: datetime, last: datetime) -> Iterable[tuple[datetime, str, int]]:
    """Yield (hour, node class, nano) of the whole pool between two moments, summed by both."""
    rows = AvailabilityHour.objects.filter(hour__gte=first, hour__lt=last).values_list("hour", "node_class")
    for hour, node_class, amount in rows.annotate(sum=Sum("amount_nano")).order_by("hour", "node_class"):
        yield hour, node_class, int(amount)


def _gpu_minutes(provider: str, first: datetime, last: datetime) -> dict[str, int]:
    rows = AvailabilityHour.objects.filter(provider=provider, hour__gte=first, hour__lt=last).values("node")
    return {row["node"]: int(row["sum"]) for row in rows.annotate(sum=Sum(F("gpus") * F("minutes")))}


def _twins(uuids: Collection[str]) -> set[str]:
    rows = Gpu.objects.filter(uuid__in=uuids, is_present=True).values("uuid").annotate(nodes=Count("node"))
    return {row["uuid"] for row in rows if row["nodes"] > 1}


def _proven(node_ids: Collection[int], before: datetime) -> set[tuple[int, str]]:
    rows = CheckResult.objects.filter(node__in=node_ids, check_id__in=_MEASURED, at__lt=before)
    rows = rows.exclude(verdict=Verdict.SKIP).order_by("node_id", "check_id", "subject", "-at", "-id")
    newest = rows.distinct("node_id", "check_id", "subject").values_list("node_id", "subject", "verdict")
    good, bad = set[tuple[int, str]](), set[tuple[int, str]]()
    for node_id, subject, verdict in newest:
        (good if verdict in {Verdict.PASS, Verdict.WARN} else bad).add((node_id, subject))
    return good - bad


def _related_to_house() -> set[int]:
    """Return the organizations that count as one party with one of the operator's own."""
    house = set(Provider.objects.filter(kind=ProviderKind.HOUSE).values_list("organization_id", flat=True))
    pairs = RelatedPair.objects.filter(Q(low__in=house) | Q(high__in=house), is_related=True)
    return {end for pair in pairs.values_list("low_id", "high_id") for end in pair}
