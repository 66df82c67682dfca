"""A month of life for the browser tests, so that pages are looked at as they are used."""

from datetime import datetime, timedelta

from portal.accounts.models import AlertKind, ApiKey, KeyAlert, KeySighting, Organization, Project
from portal.billing.models.credit import BudgetWindow
from portal.billing.rules import windows
from portal.billing.services import maturity, posting
from portal.catalog.models import CatalogModel
from portal.core.money import NANO_PER_UNIT
from portal.nodes.models import Node, NodeState
from portal.trust.models import CacheAudit, EngineAudit, EngineMinute, TokenBias
from portal.trust.services import evidence
from portal.trust.services.evidence import Incident
from tests.factories.accounts import ApiKeyFactory, InvitationFactory, ProjectFactory
from tests.factories.billing import Market, PricedModelFactory
from tests.factories.checks import CheckResultFactory, CheckRoundFactory
from tests.factories.nodes import DeploymentFactory, EnrolmentTokenFactory, GpuFactory, NodeFactory, NodeGuestFactory
from tests.world import World

_DAYS = 28


def fill(world: World, now: datetime) -> None:
    """Let the customer use two models on the supplier's nodes for four weeks."""
    organization = world.customer.organization
    world.provider.is_identified = True
    world.provider.save(update_fields=["is_identified"])
    models = [PricedModelFactory(public_id="acme/chat-8b"), PricedModelFactory(public_id="acme/chat-70b")]
    nodes = [_node(world, name, state, now) for name, state in _FLEET]
    _checked(nodes[0], now)
    for number, (node, model) in enumerate(zip(nodes, models, strict=False)):
        DeploymentFactory(node=node, model=model)
        market = Market(
            customer=organization,
            node=node,
            model=model,
            paid_nano=0 if number else 50 * NANO_PER_UNIT,
            lease_nano=20 * NANO_PER_UNIT,
        )
        for day in range(_DAYS):
            at = now - timedelta(days=_DAYS - day, minutes=5)
            prompt, completion = 90_000 + 9_000 * (day % 5), 40_000 + 7_000 * (day % 3)
            market.serve(prompt=prompt, completion=completion, closed_at=at, **_agreed(prompt, completion))
    posting.post_usage(now=now)
    maturity.mature(now=now)
    ApiKeyFactory(organization=organization, name="nightly evaluation", revoked_at=now - timedelta(days=2))
    project = ProjectFactory(organization=organization, name="support chat", budget_cap_nano=200 * NANO_PER_UNIT)
    staging = ApiKeyFactory(
        organization=organization,
        project=project,
        name="staging backend",
        budget_cap_nano=25 * NANO_PER_UNIT,
        networks=["203.0.113.0/24"],
        requests_per_minute=600,
    )
    _spend(staging, project, now)
    KeySighting.objects.create(
        key=staging, network="203.0.113.0/24", country="DE", first_seen_at=now - timedelta(days=9), last_seen_at=now
    )
    KeyAlert.objects.create(
        key=staging,
        kind=AlertKind.NEW_COUNTRY,
        subject="BR",
        detail={"network": "198.51.100.0/24", "country": "BR"},
        created_at=now - timedelta(hours=3),
    )
    InvitationFactory(organization=organization, invited_by=world.customer.owner)
    _watch(nodes[0], models[0], now)
    _let(nodes[1], organization, now)
    EnrolmentTokenFactory(provider=world.provider, created_at=now, expires_at=now + timedelta(hours=1))


def _agreed(prompt: int, completion: int) -> dict[str, int]:
    """Return claims and counts that agree with what is billed."""
    return {
        "claimed_prompt_tokens": prompt,
        "counted_prompt_tokens": prompt,
        "claimed_completion_tokens": completion,
        "counted_completion_tokens": completion - 1,
    }


def _spend(key: ApiKey, project: Project, now: datetime) -> None:
    """Let a part of the budgets be spent."""
    for owner, nano in ((key, 17_400_000_000), (project, 61_250_000_000)):
        span = windows.window_of(period=owner.budget_period, zone="UTC", at=now)
        BudgetWindow.objects.create(
            organization=key.organization,
            owner=owner.public_id,
            period=owner.budget_period,
            starts_at=span.starts_at,
            ends_at=span.ends_at,
            cap_nano=owner.budget_cap_nano,
            used_nano=nano,
        )


def _watch(node: Node, model: CatalogModel, now: datetime) -> None:
    """Let the pool have seen the node: counts in order, an engine that lags, a cache that is not told of, evidence."""
    TokenBias.objects.create(
        node=node,
        model=model,
        attempts=180,
        claimed_prompt_tokens=64_120,
        counted_prompt_tokens=64_118,
        claimed_completion_tokens=31_240,
        counted_completion_tokens=31_060,
        allowed_tokens=180,
        updated_at=now,
    )
    engine = EngineAudit.objects.create(
        node=node,
        model=model,
        settled_prompt_tokens=910_400,
        settled_completion_tokens=402_750,
        engine_prompt_tokens=874_020,
        engine_completion_tokens=402_911,
        restarts=1,
        is_exceeded=True,
        changed_at=now - timedelta(minutes=50),
        read_at=now,
    )
    for minute in range(4):
        EngineMinute.objects.create(
            audit=engine,
            minute=(now - timedelta(minutes=minute)).replace(second=0, microsecond=0),
            claimed_prompt_tokens=9_100 + 210 * minute,
            claimed_completion_tokens=4_000 + 90 * minute,
            engine_prompt_tokens=None if minute == 3 else 8_700 + 190 * minute,
            engine_completion_tokens=None if minute == 3 else 4_010 + 90 * minute,
        )
    CacheAudit.objects.create(
        node=node, model=model, expected_tokens=48_000, claimed_tokens=9_600, hides_cache=True, changed_at=now
    )
    seen = [("frames_too_small", 41, "3,870 frames of one byte"), ("node_silent", 2, "no byte for 60 s")]
    evidence.record(
        incidents=[
            Incident(
                node_id=node.pk, rule=rule, count=count, first_at=now, last_at=now, detail=detail, sample='{"bytes": 1}'
            )
            for rule, count, detail in seen
        ]
    )


def _let(node: Node, guest: Organization, now: datetime) -> None:
    """Make the node private, and the customer its guest."""
    Node.objects.filter(pk=node.pk).update(is_private=True)
    NodeGuestFactory(node=node, organization=guest, named_at=now - timedelta(days=2), accepted_at=now)
    NodeGuestFactory(node=node, named_at=now - timedelta(days=1))


_FLEET = [
    ("rack1-a", NodeState.SERVING),
    ("rack1-b", NodeState.SERVING),
    ("rack2-a", NodeState.DEGRADED),
    ("rack2-b", NodeState.OFFLINE),
]


def _checked(node: Node, now: datetime) -> None:
    """A round with every verdict on the first node."""
    row = CheckRoundFactory(node=node, asked_at=now - timedelta(hours=2), ended_at=now - timedelta(hours=1))
    first, second = node.gpus.order_by("index")
    at = now - timedelta(hours=1)
    CheckResultFactory(round=row, subject=first.uuid, at=at)
    CheckResultFactory(
        round=row, subject=second.uuid, figure_milli=81_500, verdict="fail", verdict_code="compute_slow", at=at,
        detail="NVIDIA GeForce RTX 4090", limit_milli=115_500,
        evidence={"side": 8192, "samples": [{"at_s": 3.0, "temperature_c": 91, "throttle_reasons": 64}]},
    )  # fmt: skip
    CheckResultFactory(
        round=row, check_id="gpu.matmul.fp8", subject=first.uuid, figure_milli=310_000, reference_milli=None,
        limit_milli=None, verdict="review", verdict_code="hardware_unknown", at=at,
    )  # fmt: skip
    CheckResultFactory(
        round=row, check_id="disk.write", subject="", hardware="", figure_milli=96_000, unit="MB/s",
        verdict="warn", verdict_code="disk_slow", limit_milli=150_000, at=at,
    )  # fmt: skip
    CheckResultFactory(
        round=row, check_id="engine.smoke", subject="acme/chat-8b", figure_milli=None, unit="", status="skip",
        limit_milli=None, verdict="skip", verdict_code="check_interrupted", at=at,
    )  # fmt: skip


def _node(world: World, name: str, state: NodeState, now: datetime) -> Node:
    code = {"offline": "heartbeat_missed", "degraded": "deployment_failed"}.get(state.value, "serving")
    node = NodeFactory(
        provider=world.provider, name=name, state=state, state_code=code, last_heartbeat_at=now - timedelta(seconds=7)
    )
    for index in range(2):
        GpuFactory(node=node, index=index)
    return node
