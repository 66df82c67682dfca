"""Rounds of checks: asked at join, when due and on demand; judged when they come; an enforced failure has an effect."""

from datetime import timedelta

import pytest
from django.db.models import F

from portal.accounts.models import Role
from portal.audit.models import AuditEvent
from portal.nodes.models import CheckResult, CheckRound, Node, NodeEvent, RoundReason, RoundState
from portal.nodes.rules.beats import GpuClaim
from portal.nodes.rules.checks import ResultClaim
from portal.nodes.services import check_policies, check_results, check_rounds
from portal.nodes.services.check_policies import PolicySpec
from portal.notifications.models import Message
from portal.notifications.rendering import render
from tests.factories.accounts import MembershipFactory
from tests.factories.checks import CheckResultFactory, CheckRoundFactory
from tests.factories.nodes import DeploymentFactory, NodeFactory
from tests.integration.nodes.agent import GPU

LAPTOP = GpuClaim("GPU-laptop", 1, "NVIDIA GeForce RTX 4090 Laptop GPU", 17_000_000_000, "570.133.20", "8.9")


def bf16(figure_milli: int | None, *, subject: str = GPU.uuid, status: str = "ok", code: str = "") -> ResultClaim:
    return ResultClaim("gpu.matmul.bf16", 1, status, subject, code, "", figure_milli)


def report(agent, *results: ResultClaim, now, state: str = "done", **fields) -> check_rounds.Taken:
    row = CheckRound.objects.get(node=agent.node, state__in=["asked", "running"])
    told = check_rounds.Report(round=row.public_id, state=state, results=results, **fields)
    return check_rounds.take_report(token=agent.token, report=told, now=now)


@pytest.fixture
def live(agent, now):
    agent.open(now)
    agent.beat(now)
    return agent


def test_a_node_is_asked_when_it_joins(agent, now) -> None:
    agent.open(now)

    answer = agent.beat(now)

    assert answer.check_round == CheckRound.objects.get(node=agent.node)
    assert (answer.check_round.reason, answer.check_round.is_whole) == (RoundReason.JOIN, True)


def test_a_finished_round_is_not_asked_for_again_before_a_week(live, now) -> None:
    report(live, bf16(160_000), now=now)

    assert live.beat(now).check_round is None
    assert Node.objects.get(pk=live.node.pk).has_check_matters is False
    assert check_rounds.ask_due(now=now + timedelta(days=6, hours=23)) == 0
    assert check_rounds.ask_due(now=now + timedelta(days=7)) == 1
    asked = CheckRound.objects.exclude(state=RoundState.DONE).get()
    assert (asked.node_id, asked.reason, asked.is_whole) == (live.node.pk, RoundReason.SCHEDULE, False)


def test_a_round_that_gave_way_is_asked_for_again_after_hours(live, now) -> None:
    report(live, now=now, state="interrupted", code="check_interrupted")

    assert check_rounds.ask_due(now=now + timedelta(hours=6)) == 1


def test_a_model_that_was_never_measured_is_measured_soon(live, now) -> None:
    report(live, bf16(160_000), now=now)
    later = now + timedelta(minutes=5)
    assert check_rounds.ask_due(now=later) == 0
    model = DeploymentFactory(node=live.node, model__plain=True).model

    assert check_rounds.ask_due(now=later) == 1
    report(live, ResultClaim("engine.smoke", 1, "ok", model.public_id), now=later)

    assert check_rounds.ask_due(now=later + timedelta(hours=7)) == 0


def test_a_model_that_could_not_be_measured_is_tried_again_after_hours(live, now) -> None:
    report(live, now=now)
    model = DeploymentFactory(node=live.node, model__plain=True).model
    check_rounds.ask_due(now=now)
    report(live, ResultClaim("engine.smoke", 1, "skip", model.public_id, "check_interrupted"), now=now)

    assert check_rounds.ask_due(now=now + timedelta(hours=5)) == 0
    assert check_rounds.ask_due(now=now + timedelta(hours=6)) == 1


def test_a_round_that_never_ends_expires(live, now) -> None:
    assert check_rounds.expire(now=now + timedelta(hours=23)) == 0
    assert check_rounds.expire(now=now + timedelta(hours=24)) == 1

    row = CheckRound.objects.get()
    assert (row.state, row.code) == (RoundState.EXPIRED, "check_round_expired")


def test_a_person_asks_once(live, actor, now) -> None:
    with pytest.raises(check_rounds.RoundOpen):
        check_rounds.ask_on_demand(node_id=live.node.public_id, actor=actor, now=now)
    report(live, now=now)

    row = check_rounds.ask_on_demand(node_id=live.node.public_id, actor=actor, now=now)

    assert (row.reason, row.asked_by, live.beat(now).check_round) == (RoundReason.DEMAND, actor.public_id, row)
    event = AuditEvent.objects.get(event="node.checks_asked")
    assert (event.subject, event.detail) == (live.node.public_id, {"round": row.public_id})


def test_a_suspended_node_is_not_asked(now, actor, db) -> None:
    node = NodeFactory(state="suspended")

    assert check_rounds.ask_due(now=now) == 0
    with pytest.raises(check_rounds.sessions.NodeSuspended):
        check_rounds.ask_on_demand(node_id=node.public_id, actor=actor, now=now)
    assert not CheckRound.objects.exists()


def test_another_nodes_round_is_unknown(live, now) -> None:
    strange = CheckRoundFactory(state=RoundState.ASKED)
    told = check_rounds.Report(round=strange.public_id, state="done", results=(bf16(1),))

    with pytest.raises(check_rounds.RoundUnknown):
        check_rounds.take_report(token=live.token, report=told, now=now)

    assert not CheckResult.objects.exists()


def test_progress_is_shown_and_results_come_in_parts_and_once(live, now) -> None:
    report(live, bf16(160_000), now=now, state="running", percent=40, doing="matrix product, bf16")
    report(live, bf16(1_000), now=now, state="running", percent=60)

    row = CheckRound.objects.get()
    assert (row.state, row.percent, row.started_at) == (RoundState.RUNNING, 60, now)
    assert CheckResult.objects.get().figure_milli == 160_000


@pytest.mark.parametrize(
    ("figure", "wanted"),
    [
        (172_000, ("pass", "", 140_250)),
        (140_250, ("pass", "", 140_250)),
        (140_249, ("warn", "compute_slow", 140_250)),
        (115_499, ("fail", "compute_slow", 115_500)),
        (189_751, ("review", "figure_implausible", 189_750)),
        (None, ("review", "figure_missing", None)),
    ],
)
def test_a_figure_is_held_against_its_hardware(live, actor, now, figure, wanted) -> None:
    check_policies.set_reference(
        hardware="NVIDIA GeForce RTX 4090",
        check_id="gpu.matmul.bf16",
        figure_milli=165_000,
        source="bench",
        actor=actor,
        now=now,
    )

    taken = report(live, bf16(figure), now=now)

    row = CheckResult.objects.get()
    assert ((row.verdict, row.verdict_code, row.limit_milli), row.reference_milli) == (wanted, 165_000)
    assert (row.hardware, row.is_enforced, row.policy_revision) == ("NVIDIA GeForce RTX 4090", False, 0)
    assert [(one["verdict"], one["code"]) for one in taken.verdicts] == [wanted[:2]]


def test_what_is_known_of_a_kind_is_the_reference_until_the_operator_says_more(live, now) -> None:
    report(live, bf16(80_000), now=now)

    row = CheckResult.objects.get()
    assert row.verdict == "fail"
    assert row.reference_milli > 150_000


def test_unknown_hardware_is_for_a_person_and_never_zero(live, now) -> None:
    live.gpus = (GPU, LAPTOP)
    live.beat(now)

    report(live, bf16(60_000, subject=LAPTOP.uuid), bf16(60_000, subject="GPU-nobody"), now=now)

    rows = CheckResult.objects.order_by("subject")
    assert [(row.verdict, row.verdict_code, row.reference_milli) for row in rows] == [
        ("review", "hardware_unknown", None),
        ("review", "hardware_unknown", None),
    ]
    assert live.beat(now).state == "ready"


def test_a_shadow_failure_has_no_effect_and_writes_to_nobody(live, now) -> None:
    report(live, bf16(None, status="fail", code="compute_inconsistent"), now=now)

    assert live.beat(now).state == "ready"
    assert not Message.objects.exists()


def test_an_enforced_failure_keeps_the_node_from_work_until_the_check_passes(live, provider, actor, now) -> None:
    spec = PolicySpec(check_id="gpu.matmul.bf16", mode="enforced")
    check_policies.set_policy(spec=spec, actor=actor, now=now)
    report(live, bf16(10_000), now=now)

    answer = live.beat(now)

    assert (answer.state, live_code(live)) == ("degraded", "compute_slow")
    assert any(notice.code == "compute_slow" and notice.fix for notice in answer.notices)
    check_rounds.ask_on_demand(node_id=live.node.public_id, actor=actor, now=now)
    report(live, bf16(165_000), now=now + timedelta(minutes=5))
    assert live.beat(now + timedelta(minutes=5)).state == "ready"


def test_an_enforced_failure_is_told_to_the_owners_once_a_day(live, provider, actor, now) -> None:
    owner = MembershipFactory(organization=provider.organization, role=Role.OWNER)
    MembershipFactory(organization=provider.organization, role=Role.MEMBER)
    check_policies.set_policy(spec=PolicySpec("gpu.matmul.bf16", "enforced"), actor=actor, now=now)
    report(live, bf16(10_000), now=now)
    check_rounds.ask_on_demand(node_id=live.node.public_id, actor=actor, now=now)
    report(live, bf16(10_000), now=now + timedelta(minutes=5))

    message = Message.objects.get()

    assert (message.to, message.template) == (owner.user.email, "node_check_failed")
    told = render(message)
    assert told.subject == f"{live.node.name}: The GPU computes more slowly than its kind does"
    for words in ("compute_slow", "check gpu.matmul.bf16", "Check cooling and power limit", live.node.public_id):
        assert words in told.text
    assert NodeEvent.objects.filter(node=live.node, code="compute_slow", from_state=F("to_state")).count() == 2


def test_turning_a_check_back_to_shadow_lifts_its_effect_at_once(live, actor, now) -> None:
    check_policies.set_policy(spec=PolicySpec("gpu.matmul.bf16", "enforced"), actor=actor, now=now)
    report(live, bf16(10_000), now=now)
    assert live.beat(now).state == "degraded"

    check_policies.set_policy(spec=PolicySpec("gpu.matmul.bf16", "shadow"), actor=actor, now=now)

    assert live.beat(now).state == "ready"


def test_a_false_alarm_lifts_the_effect(live, actor, now) -> None:
    check_policies.set_policy(spec=PolicySpec("gpu.matmul.bf16", "enforced"), actor=actor, now=now)
    report(live, bf16(10_000), now=now)

    check_results.give_opinion(result_id=CheckResult.objects.get().pk, opinion="false_alarm", actor=actor, now=now)

    assert live.beat(now).state == "ready"
    assert AuditEvent.objects.get(event="check_result.judged").detail["opinion"] == "false_alarm"


def test_a_card_that_was_taken_out_no_longer_keeps_the_node(live, actor, now) -> None:
    other = GpuClaim("GPU-other", 1, "NVIDIA GeForce RTX 4090", 25_757_220_864, "570.133.20", "8.9")
    check_policies.set_policy(spec=PolicySpec("gpu.matmul.bf16", "enforced"), actor=actor, now=now)
    report(live, bf16(10_000), now=now)
    live.gpus = (other,)

    assert live.beat(now).state == "ready"


def test_old_rounds_are_forgotten_but_the_newest_is_kept(now, db) -> None:
    old, new = now - timedelta(days=200), now - timedelta(days=190)
    node = NodeFactory()
    first = CheckResultFactory(round=CheckRoundFactory(node=node, asked_at=old, ended_at=old)).round
    second = CheckRoundFactory(node=node, asked_at=new, ended_at=new)

    assert check_rounds.forget(now=now) == 1

    assert list(CheckRound.objects.all()) == [second]
    assert not CheckResult.objects.filter(round=first).exists()
    assert check_rounds.forget(now=now) == 0


def live_code(agent) -> str:
    return Node.objects.get(pk=agent.node.pk).state_code
