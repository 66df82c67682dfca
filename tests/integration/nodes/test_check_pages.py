"""The pages of checks: providers see their results and ask for a round; the operator decides how checks are judged."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.audit.models import AuditEvent
from portal.core import clock
from portal.nodes.models import CheckPolicy, CheckResult, CheckRound, ReferenceFigure
from tests.factories.checks import CheckPolicyFactory, CheckResultFactory, CheckRoundFactory, ReferenceFigureFactory
from tests.factories.nodes import GpuFactory, NodeEventFactory, NodeFactory
from tests.factories.providers import ProviderFactory

PAGE = "operators:check"


@pytest.fixture
def now():
    """Pages look at the clock."""
    return clock.now()


@pytest.fixture
def browser(world):
    return world.client(world.supplier.owner)


@pytest.fixture
def operator_client(world):
    return world.client(world.operator)


@pytest.fixture
def node(world):
    return NodeFactory(provider=world.provider)


@pytest.fixture
def failed(node, now):
    gpu = GpuFactory(node=node)
    return CheckResultFactory(
        round=CheckRoundFactory(node=node),
        subject=gpu.uuid,
        figure_milli=80_000,
        verdict="fail",
        verdict_code="compute_slow",
        limit_milli=115_500,
        evidence={"samples": [{"temperature_c": 91}]},
        at=now,
    )


def test_a_provider_reads_what_is_wrong_and_what_to_do(browser, node, failed) -> None:
    page = browser.get(reverse("provider:node-checks", args=[node.public_id])).content.decode()

    for words in ("Matrix product, bf16", "80 TFLOPS", "at least 116 TFLOPS", "in shadow", "compute_slow",
                  "Check cooling and power limit", "<code>nvidia-smi -q -d CLOCK,POWER,PERFORMANCE</code>",
                  "temperature_c"):  # fmt: skip
        assert words in page, words


def test_a_provider_asks_for_a_round_once(browser, world, node) -> None:
    url = reverse("provider:node-checks", args=[node.public_id])

    browser.post(url, {"ask": "1"})
    again = browser.post(url, {"ask": "1"}, follow=True)

    row = CheckRound.objects.get()
    assert (row.node, row.reason, row.asked_by) == (node, "demand", world.supplier.owner.public_id)
    assert "under way" in again.content.decode()
    assert "Check now" not in again.content.decode()


def test_a_strangers_node_is_not_there(browser) -> None:
    node = NodeFactory(provider=ProviderFactory())

    answer = browser.post(reverse("provider:node-checks", args=[node.public_id]))

    assert answer.status_code == 404
    assert not CheckRound.objects.exists()


def test_the_operator_enforces_a_check_and_sees_its_false_alarms_first(operator_client, failed, node, now) -> None:
    CheckResultFactory.create_batch(3, at=now)
    url = reverse(PAGE, args=["gpu.matmul.bf16"])

    page = operator_client.get(url).content.decode()
    saved = operator_client.post(
        url, {"mode": "enforced", "fail_percent": 60, "warn_percent": 80, "most_percent": 120}, follow=True
    )

    assert "1 false alarm" in page
    assert "among 4 in order (25%)" in page
    assert "Saved" in saved.content.decode()
    row = CheckPolicy.objects.get()
    assert (row.mode, row.revision, row.fail_percent, row.warn_percent, row.most_percent) == (
        "enforced",
        1,
        60,
        80,
        120,
    )
    assert AuditEvent.objects.get(event="check_policy.set").detail == {"mode": "enforced", "revision": 1}


def test_percentages_out_of_order_are_refused(operator_client) -> None:
    given = {"mode": "shadow", "fail_percent": 90, "warn_percent": 80, "most_percent": 120}

    page = operator_client.post(reverse(PAGE, args=["gpu.matmul.bf16"]), given)

    assert "must rise" in page.content.decode()
    assert not CheckPolicy.objects.exists()


def test_limits_are_in_the_checks_unit(operator_client) -> None:
    operator_client.post(
        reverse(PAGE, args=["disk.read"]), {"mode": "shadow", "fail_limit": "80.5", "warn_limit": "300"}
    )

    row = CheckPolicy.objects.get()
    assert (row.fail_limit_milli, row.warn_limit_milli) == (80_500, 300_000)


def test_reference_figures_are_the_operators_to_edit(operator_client) -> None:
    url = reverse(PAGE, args=["gpu.matmul.fp8"])
    given = {"hardware": "NVIDIA L40S", "figure": "390.5", "source": "measured here"}

    operator_client.post(url, given)
    operator_client.post(url, {**given, "figure": ""})
    page = operator_client.get(url).content.decode()

    rows = ReferenceFigure.objects.order_by("revision")
    assert [(row.revision, row.figure_milli) for row in rows] == [(1, 390_500), (2, None)]
    assert "NVIDIA L40S" in page


def test_what_nodes_reach_is_shown_beside_the_reference(operator_client, now) -> None:
    for figure in (150_000, 160_000, 170_000):
        CheckResultFactory(figure_milli=figure, at=now)
    ReferenceFigureFactory(figure_milli=165_000, source="our bench")

    page = operator_client.get(reverse(PAGE, args=["gpu.matmul.bf16"])).content.decode()

    assert "160 TFLOPS" in page
    assert "our bench" in page


def test_a_failure_that_the_operator_confirms_is_no_false_alarm(operator_client, failed, now) -> None:
    CheckResultFactory.create_batch(3, at=now)

    operator_client.post(reverse("operators:check-result", args=[failed.pk]), {"opinion": "right"})
    page = operator_client.get(reverse(PAGE, args=["gpu.matmul.bf16"])).content.decode()

    assert CheckResult.objects.get(pk=failed.pk).opinion == "right"
    assert "0 false alarms" in page
    assert "among 3 in order (0%)" in page


def test_a_failure_of_a_node_that_broke_is_no_false_alarm(operator_client, failed, node, now) -> None:
    NodeEventFactory(node=node, at=now - timedelta(days=1), to_state="degraded", cause="node", code="gpu_is_lost")

    page = operator_client.get(reverse("operators:checks")).content.decode()

    assert "0 of" not in page
    assert CheckResult.objects.get().verdict == "fail"


def test_the_list_shows_every_check_and_its_mode(operator_client) -> None:
    CheckPolicyFactory(check_id="gpu.vram", mode="enforced")

    page = operator_client.get(reverse("operators:checks")).content.decode()

    assert "Enforced" in page
    assert page.count("Shadow") > 20
    for check in ("gpu.start", "gpu.all_reduce", "disk.read", "network.round_trip", "engine.concurrency"):
        assert check in page


def test_an_unknown_check_is_not_there(operator_client) -> None:
    assert operator_client.get(reverse(PAGE, args=["flux"])).status_code == 404


def test_the_node_pages_sum_up(browser, operator_client, node, failed) -> None:
    ours = browser.get(reverse("provider:node", args=[node.public_id])).content.decode()
    theirs = operator_client.get(reverse("operators:node", args=[node.public_id])).content.decode()

    assert reverse("provider:node-checks", args=[node.public_id]) in ours
    assert reverse("operators:node-checks", args=[node.public_id]) in theirs


@pytest.mark.parametrize("results", [1, 40])
def test_the_page_needs_few_queries(browser, node, results, django_assert_max_num_queries) -> None:
    row = CheckRoundFactory(node=node)
    for number in range(results):
        CheckResultFactory(round=row, subject=f"GPU-{number}")

    with django_assert_max_num_queries(20):
        browser.get(reverse("provider:node-checks", args=[node.public_id]))
