"""Each minute the claims of a node are held against its engine's own counters."""

from datetime import timedelta

import pytest

from portal.audit.models import AuditEvent
from portal.nodes.models import Deployment
from portal.trust.models import EngineAudit, EngineMinute
from portal.trust.selectors import for_gateway
from portal.trust.services import engine_audits, token_audits
from tests.factories import metering
from tests.factories.billing import Market
from tests.factories.nodes import DeploymentFactory

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


class _Engine:
    """A node that claims through usage records and counts through heartbeats, read once a minute."""

    def __init__(self) -> None:
        self.market = Market()
        found = Deployment.objects.filter(node=self.market.node, model=self.market.model).first()
        self.deployment = found or DeploymentFactory(node=self.market.node, model=self.market.model)
        self.now = metering.AT

    def claim(self, *, prompt: int, completion: int, **overrides: object) -> None:
        self.market.serve(
            claimed_prompt_tokens=prompt,
            counted_prompt_tokens=prompt,
            claimed_completion_tokens=completion,
            counted_completion_tokens=completion,
            **overrides,
        )
        token_audits.audit_usage(now=self.now)

    def beat(self, *, prompt: int | None, generation: int | None = None) -> None:
        counters = {} if prompt is None else {"prompt_tokens_total": prompt, "generation_tokens_total": generation}
        self.now += MINUTE
        Deployment.objects.filter(pk=self.deployment.pk).update(counters=counters, observed_at=self.now)
        engine_audits.read_engines(now=self.now)


@pytest.fixture
def engine() -> _Engine:
    engine = _Engine()
    engine.claim(prompt=1, completion=1)
    engine.beat(prompt=500, generation=500)
    return engine


def test_claims_that_the_engine_has_counted_are_in_order(engine):
    engine.claim(prompt=60_000, completion=30_000)
    engine.beat(prompt=60_500, generation=30_500)
    engine.beat(prompt=60_500, generation=30_500)

    audit = EngineAudit.objects.get()
    assert not audit.is_exceeded
    assert (audit.settled_prompt_tokens, audit.engine_prompt_tokens) == (60_000, 60_000)
    assert for_gateway.standings(now=engine.now)[engine.market.node.pk].models_without_tolerance == set()


def test_claims_beyond_the_engine_cost_the_tolerance_until_they_match_again(engine):
    engine.claim(prompt=0, completion=60_000)
    engine.beat(prompt=500, generation=30_500)
    assert not EngineAudit.objects.get().is_exceeded  # the engine may report those a moment later

    engine.beat(prompt=500, generation=30_500)
    standing = for_gateway.standings(now=engine.now)[engine.market.node.pk]
    assert EngineAudit.objects.get().is_exceeded
    assert standing.models_without_tolerance == {engine.market.model.pk}
    assert standing.weight == 0.5
    event = AuditEvent.objects.get(event="node.claims_exceed_engine")
    assert (event.subject, event.detail["claimed"], event.detail["engine"]) == (
        engine.market.node.public_id, [0, 60_000], [0, 30_000],
    )  # fmt: skip

    engine.beat(prompt=500, generation=60_500)
    assert not EngineAudit.objects.get().is_exceeded
    assert AuditEvent.objects.filter(event="node.claims_match_engine").count() == 1


def test_a_restarted_engine_begins_both_sums_anew(engine):
    engine.claim(prompt=0, completion=60_000)
    engine.beat(prompt=10, generation=10)
    engine.beat(prompt=20, generation=20)

    audit = EngineAudit.objects.get()
    assert (audit.restarts, audit.is_exceeded) == (1, False)
    assert (audit.engine_completion_tokens, audit.claimed_completion_tokens) == (10, 0)


def test_an_engine_without_counters_is_unknown(engine):
    engine.claim(prompt=0, completion=60_000)
    engine.beat(prompt=None)
    engine.beat(prompt=None)

    assert not EngineAudit.objects.get().is_exceeded
    assert EngineMinute.objects.latest("minute").engine_completion_tokens is None


def test_a_failed_attempt_claims_nothing(engine):
    engine.claim(prompt=0, completion=60_000, outcome="node_fault", charge_nano=0, provider_nano=0, platform_nano=0)

    assert EngineAudit.objects.get().claimed_completion_tokens == 0


def test_each_minute_is_kept_for_a_week(engine):
    engine.claim(prompt=7, completion=9)
    engine.beat(prompt=507, generation=509)

    minute = EngineMinute.objects.latest("minute")
    assert (minute.claimed_prompt_tokens, minute.claimed_completion_tokens) == (7, 9)
    assert (minute.engine_prompt_tokens, minute.engine_completion_tokens) == (7, 9)
    assert engine_audits.forget_old_minutes(now=engine.now + timedelta(days=7, minutes=1)) == 2
