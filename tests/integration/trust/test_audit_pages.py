"""Provider and operator see the same figures of a node: what it said, what the pool saw, the limit and the verdict."""

import re
from datetime import timedelta

import pytest

from portal.core import clock
from portal.nodes.models import Node
from portal.trust.models import CacheAudit, EngineAudit, EngineMinute, TokenBias
from portal.trust.rules.verdicts import Audit, Verdict
from portal.trust.selectors.audits import Figure, audits_of
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import NodeFactory
from tests.world import World

pytestmark = pytest.mark.django_db

NOW = clock.now().replace(microsecond=0)


@pytest.fixture
def node(world: World) -> Node:
    return NodeFactory(provider=world.provider)


@pytest.fixture
def model():
    return CatalogModelFactory(plain=True, name="Chat Eight", public_id="acme/chat-eight")


def _bias(node: Node, model, **fields) -> TokenBias:
    given = {
        "claimed_prompt_tokens": 5_000,
        "counted_prompt_tokens": 5_000,
        "claimed_completion_tokens": 2_000,
        "counted_completion_tokens": 1_990,
        "allowed_tokens": 10,
    }
    return TokenBias.objects.create(node=node, model=model, attempts=10, updated_at=NOW, **(given | fields))


def _engine(node: Node, model, **fields) -> EngineAudit:
    given = {
        "settled_prompt_tokens": 5_000,
        "settled_completion_tokens": 2_000,
        "engine_prompt_tokens": 6_000,
        "engine_completion_tokens": 2_100,
        "restarts": 2,
        "read_at": NOW,
    }
    return EngineAudit.objects.create(node=node, model=model, **(given | fields))


def _cache(node: Node, model, *, expected: int = 40_000, claimed: int = 30_000, **fields) -> CacheAudit:
    return CacheAudit.objects.create(node=node, model=model, expected_tokens=expected, claimed_tokens=claimed, **fields)


def test_figures_come_with_their_limits(node, model):
    _bias(node, model)
    _engine(node, model)
    _cache(node, model)

    count, engine, cache = audits_of(node=node, now=NOW)

    assert (count.audit, count.verdict) == (Audit.COUNT, Verdict.IN_ORDER)
    assert count.figures == [
        Figure("Prompt", 5_000, 5_000, 5_010),
        Figure("Completion", 2_000, 1_990, 2_004),
    ]
    assert (engine.audit, engine.verdict, engine.restarts) == (Audit.ENGINE, Verdict.IN_ORDER, 2)
    assert engine.figures == [
        Figure("Prompt", 5_000, 6_000, 6_000 + 60 + 16_384),
        Figure("Completion", 2_000, 2_100, 2_100 + 21 + 16_384),
    ]
    assert (cache.audit, cache.verdict, cache.is_floor) == (Audit.CACHE, Verdict.IN_ORDER, True)
    assert cache.figures == [Figure("Reused prompt", 30_000, 40_000, 20_000)]


def test_limits_follow_the_models_other_nodes(node, model):
    _bias(node, model)
    _bias(NodeFactory(), model, claimed_prompt_tokens=5_100)
    _cache(node, model)
    _cache(NodeFactory(), model, expected=40_000, claimed=20_000)

    count, cache = audits_of(node=node, now=NOW)

    assert count.figures[0] == Figure("Prompt", 5_000, 5_000, 5_110)
    assert cache.figures[0].limit == 10_000


def test_what_was_found_is_what_is_shown(node, model):
    _bias(node, model, has_tolerance=False, changed_at=NOW)
    _engine(node, model, is_exceeded=True)
    _cache(node, model, hides_cache=True)

    rows = audits_of(node=node, now=NOW)

    assert [row.verdict for row in rows] == [Verdict.TOO_MANY, Verdict.TOO_MANY, Verdict.TOO_FEW]
    assert rows[0].changed_at == NOW


def test_little_is_no_verdict(node, model):
    _bias(
        node,
        model,
        claimed_prompt_tokens=999,
        counted_prompt_tokens=999,
        claimed_completion_tokens=10,
        counted_completion_tokens=10,
    )
    _engine(node, model, engine_prompt_tokens=0, engine_completion_tokens=0, restarts=0)
    _cache(node, model, expected=19_999, claimed=0)

    rows = audits_of(node=node, now=NOW)

    assert {row.verdict for row in rows} == {Verdict.UNMEASURED}
    assert not any(row.is_judged for row in rows)


def test_only_the_last_minutes_of_the_node_itself_are_listed(node, model):
    audit, foreign = _engine(node, model), _engine(NodeFactory(), model)
    for row, minutes, said in ((audit, 0, 70), (audit, 9, 80), (audit, 11, 90), (foreign, 1, 60)):
        EngineMinute.objects.create(
            audit=row,
            minute=NOW - timedelta(minutes=minutes),
            claimed_prompt_tokens=said,
            claimed_completion_tokens=5,
            engine_prompt_tokens=None if minutes else said + 1,
            engine_completion_tokens=None if minutes else 6,
        )

    (row,) = audits_of(node=node, now=NOW)

    assert [(minute.said_prompt, minute.seen_prompt) for minute in row.minutes] == [(70, 71), (80, None)]


def test_the_pages_of_a_node_show_them_to_provider_and_operator(world: World, node, model):
    _bias(node, model, claimed_completion_tokens=2_468, has_tolerance=False, changed_at=NOW)
    _bias(NodeFactory(), CatalogModelFactory(plain=True, name="Somebody else's"))

    theirs = world.client(world.supplier.owner).get(f"/provider/nodes/{node.public_id}/").text
    ours = world.client(world.operator).get(f"/operator/nodes/{node.public_id}/").text

    for page in (theirs, ours):
        words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
        assert "What the pool sees" in words
        assert "Chat Eight acme/chat-eight" in words
        assert "2,468" in words
        assert "up to 2,004" in words
        assert "Too many" in words
        assert "the node is sent half the work" in words
        assert "Somebody else" not in words


def test_a_node_nobody_measured_has_no_such_card(world: World, node):
    page = world.client(world.operator).get(f"/operator/nodes/{node.public_id}/").text

    assert "What the pool sees" not in page
