"""A node that claims more than we count loses its tolerance; an honest one keeps it."""

import pytest

from portal.audit.models import AuditEvent
from portal.metering.models import Reader, UsageQueue
from portal.trust.models import TokenBias
from portal.trust.selectors import for_gateway
from portal.trust.services import token_audits
from tests.factories import metering
from tests.factories.billing import Market, PricedModelFactory, ServingNodeFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def market() -> Market:
    return Market()


def _serve(market: Market, *, claimed: int, counted: int, times: int = 1, **overrides) -> None:
    for _ in range(times):
        market.serve(
            claimed_prompt_tokens=10,
            counted_prompt_tokens=10,
            claimed_completion_tokens=claimed,
            counted_completion_tokens=counted,
            **overrides,
        )


def test_an_honest_node_keeps_its_tolerance_and_earns_full_weight(market):
    _serve(market, claimed=101, counted=100, times=20)

    taken = token_audits.audit_usage(now=metering.AT)

    row = TokenBias.objects.get()
    assert taken == 20
    assert (row.attempts, row.counted_completion_tokens, row.allowed_tokens) == (20, 2_000, 20)
    assert row.has_tolerance
    assert for_gateway.standings(now=metering.AT)[market.node.pk].weight == 1.0


def test_two_percent_too_much_over_a_thousand_tokens_costs_the_tolerance(market):
    _serve(market, claimed=103, counted=100, times=20)

    token_audits.audit_usage(now=metering.AT)

    standing = for_gateway.standings(now=metering.AT)[market.node.pk]
    assert not TokenBias.objects.get().has_tolerance
    assert standing.models_without_tolerance == {market.model.pk}
    assert standing.weight == 0.5
    event = AuditEvent.objects.get(event="node.tolerance_lost")
    assert event.subject == market.node.public_id


def test_below_a_thousand_tokens_nothing_is_said(market):
    _serve(market, claimed=150, counted=100, times=9)

    token_audits.audit_usage(now=metering.AT)

    assert TokenBias.objects.get().has_tolerance
    assert for_gateway.standings(now=metering.AT)[market.node.pk].weight == 0.8


def test_what_all_nodes_of_a_model_show_is_the_models_own(market):
    other = Market(model=market.model)
    _serve(other, claimed=103, counted=100, times=30)
    token_audits.audit_usage(now=metering.AT)
    TokenBias.objects.update(has_tolerance=True)
    _serve(market, claimed=103, counted=100, times=20)

    token_audits.audit_usage(now=metering.AT)

    assert TokenBias.objects.get(node=market.node).has_tolerance


def test_a_node_that_behaves_again_regains_the_tolerance(market):
    _serve(market, claimed=103, counted=100, times=20)
    token_audits.audit_usage(now=metering.AT)
    _serve(market, claimed=19_001, counted=19_000, times=1)

    token_audits.audit_usage(now=metering.AT)

    assert TokenBias.objects.get().has_tolerance
    assert AuditEvent.objects.filter(event="node.tolerance_kept").count() == 1


def test_old_sums_fade(market):
    _serve(market, claimed=110_001, counted=110_000)

    token_audits.audit_usage(now=metering.AT)

    assert TokenBias.objects.get().counted_completion_tokens == 55_000


def test_each_record_is_taken_once_and_other_readers_queues_are_left_alone(market):
    _serve(market, claimed=101, counted=100, times=3)

    first = token_audits.audit_usage(now=metering.AT, limit=2)
    second = token_audits.audit_usage(now=metering.AT, limit=2)
    third = token_audits.audit_usage(now=metering.AT, limit=2)

    assert (first, second, third) == (2, 1, 0)
    assert TokenBias.objects.get().attempts == 3
    assert set(UsageQueue.objects.values_list("reader", flat=True)) == {Reader.BILLING, Reader.HOURS}


def test_a_record_without_our_count_says_nothing(market):
    market.serve(counted_prompt_tokens=None, counted_completion_tokens=None)

    assert token_audits.audit_usage(now=metering.AT) == 1
    assert not TokenBias.objects.exists()


def test_an_abort_has_no_end_token(market):
    _serve(market, claimed=101, counted=100, times=20, outcome="customer_abort")

    token_audits.audit_usage(now=metering.AT)

    assert TokenBias.objects.get().allowed_tokens == 0
    assert not TokenBias.objects.get().has_tolerance


def test_usage_of_a_node_or_model_that_is_gone_is_dropped(market):
    market.serve(node_id=10**9)
    market.serve(model_id=10**9)

    assert token_audits.audit_usage(now=metering.AT) == 2
    assert not TokenBias.objects.exists()


def test_the_digest_moves_with_the_standing_and_not_with_every_record(market):
    ServingNodeFactory()
    PricedModelFactory()
    _serve(market, claimed=101, counted=100, times=11)
    token_audits.audit_usage(now=metering.AT)
    before = for_gateway.standings_digest(now=metering.AT)
    _serve(market, claimed=101, counted=100)
    token_audits.audit_usage(now=metering.AT)
    same = for_gateway.standings_digest(now=metering.AT)
    _serve(market, claimed=200, counted=100, times=2)
    token_audits.audit_usage(now=metering.AT)

    assert same == before != for_gateway.standings_digest(now=metering.AT)
