"""A query whose SQL is kept answers like the queryset it was made of."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.models import F
from django.db.transaction import TransactionManagementError

from portal.core.kept_query import KeptQuery
from portal.nodes import locks
from portal.nodes.models import Deployment, Node, NodeSession
from tests.factories.nodes import DeploymentFactory, NodeFactory

pytestmark = pytest.mark.django_db


def deployments():
    rows = Deployment.objects.filter(node_id=0).select_related("model", "node__provider", "node__updates")
    return rows.defer("model__config", "settings").annotate(busy=F("running") + F("waiting")).order_by("-id")


def test_it_answers_what_the_queryset_answers(django_assert_num_queries):
    node, other = NodeFactory(), NodeFactory()
    rows = [DeploymentFactory(node=node, running=number, facts={"n": number}) for number in range(3)]
    DeploymentFactory(node=other)
    kept = KeptQuery(deployments)
    assert kept.rows(other.pk)[0].node == other

    with django_assert_num_queries(1):
        found = kept.rows(node.pk)
        told = [(row.pk, row.running, row.facts, row.busy, row.node.provider.public_id) for row in found]

    assert told == [(row.pk, row.running, row.facts, row.running, node.provider.public_id) for row in reversed(rows)]
    assert found[0].get_deferred_fields() == {"settings"}
    assert found[0].model.get_deferred_fields() == {"config"}
    assert found[0].model.public_id == rows[2].model.public_id
    assert not hasattr(found[0].node, "updates")
    found[0].running = 9
    found[0].save(update_fields=["running"])
    assert Deployment.objects.get(pk=rows[2].pk).running == 9
    assert kept.rows(0) == []


def test_more_than_one_value_is_refused():
    with pytest.raises(TypeError, match="a query of 2 values"):
        KeptQuery(lambda: deployments().filter(engine="vllm")).rows(1)


@pytest.mark.django_db(transaction=True)
def test_rows_are_locked_inside_a_transaction_only():
    kept = KeptQuery(lambda: Node.objects.select_for_update().filter(pk=0))
    for _ in range(2):
        with pytest.raises(TransactionManagementError):
            kept.rows(1)


@pytest.mark.django_db(transaction=True)
def test_threads_share_it():
    nodes = [NodeFactory() for _ in range(20)]
    kept = KeptQuery(lambda: Node.objects.filter(pk=0).select_related("provider"))

    def ask(node: Node) -> list[Node]:
        try:
            return kept.rows(node.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, nodes)) == [[node] for node in nodes]


def test_an_unknown_token_locks_nobody():
    assert NodeSession.objects.count() == 0
    assert locks.node_of_session("no such digest") is None
