"""A node that says too little of its prefix cache is found out, and its customers pay the cached price."""

import pytest

from portal.audit.models import AuditEvent
from portal.trust.models import CacheAudit
from portal.trust.selectors import for_gateway
from portal.trust.services import token_audits
from tests.factories import metering
from tests.factories.billing import Market

pytestmark = pytest.mark.django_db


def _serve(market: Market, *, expected: int | None, claimed: int | None, times: int = 1) -> None:
    for _ in range(times):
        market.serve(expected_cached_tokens=expected, claimed_cached_tokens=claimed)
    token_audits.audit_usage(now=metering.AT)


def _hidden(market: Market) -> set[int]:
    standings = for_gateway.standings(now=metering.AT)
    return standings[market.node.pk].models_with_hidden_cache if market.node.pk in standings else set()


def test_a_node_that_never_tells_is_caught_and_forgiven_when_it_tells():
    market = Market()
    _serve(market, expected=1_000, claimed=None, times=20)

    assert _hidden(market) == {market.model.pk}
    assert AuditEvent.objects.get(event="node.cache_hidden").subject == market.node.public_id

    _serve(market, expected=1_000, claimed=1_200, times=25)
    row = CacheAudit.objects.get()
    assert (row.expected_tokens, row.claimed_tokens) == (45_000, 25_000)
    assert _hidden(market) == set()


def test_an_engine_that_evicts_a_part_is_in_order():
    market = Market()
    _serve(market, expected=1_000, claimed=500, times=20)

    assert _hidden(market) == set()


def test_below_twenty_thousand_tokens_nothing_is_said():
    market = Market()
    _serve(market, expected=1_000, claimed=0, times=19)

    assert _hidden(market) == set()


def test_what_all_nodes_of_a_model_show_is_the_models_own():
    market = Market()
    other = Market(model=market.model)
    _serve(other, expected=1_000, claimed=200, times=20)
    CacheAudit.objects.update(hides_cache=False)

    _serve(market, expected=1_000, claimed=150, times=20)

    assert _hidden(market) == set()


def test_attempts_whose_cache_nobody_looked_at_leave_no_audit():
    market = Market()
    _serve(market, expected=None, claimed=0)

    assert not CacheAudit.objects.exists()
