"""Rounds of checks, results, policies and reference figures."""

import factory
from factory.django import DjangoModelFactory

from portal.nodes.models import CheckPolicy, CheckResult, CheckRound, ReferenceFigure, RoundReason, RoundState, Verdict
from tests.factories.accounts import JOINED
from tests.factories.nodes import NodeFactory


class CheckRoundFactory(DjangoModelFactory):
    """A finished weekly round."""

    class Meta:
        model = CheckRound

    node = factory.SubFactory(NodeFactory)
    reason = RoundReason.SCHEDULE
    state = RoundState.DONE
    asked_by = "system"
    asked_at = JOINED
    started_at = JOINED
    ended_at = JOINED


class CheckResultFactory(DjangoModelFactory):
    """A bf16 product of a card that is as fast as its kind."""

    class Meta:
        model = CheckResult

    round = factory.SubFactory(CheckRoundFactory)
    node = factory.SelfAttribute("round.node")
    check_id = "gpu.matmul.bf16"
    version = 1
    subject = factory.Sequence(lambda n: f"GPU-{n:08x}-0000-0000-0000-000000000000")
    hardware = "NVIDIA GeForce RTX 4090"
    status = "ok"
    figure_milli = 165_000
    unit = "TFLOPS"
    verdict = Verdict.PASS
    is_enforced = False
    policy_revision = 0
    reference_milli = 165_000
    limit_milli = 140_250
    at = JOINED


class CheckPolicyFactory(DjangoModelFactory):
    class Meta:
        model = CheckPolicy

    check_id = "gpu.matmul.bf16"
    revision = 1
    mode = "enforced"
    created_by = "user_operator"
    created_at = JOINED


class ReferenceFigureFactory(DjangoModelFactory):
    class Meta:
        model = ReferenceFigure

    hardware = "NVIDIA GeForce RTX 4090"
    check_id = "gpu.matmul.bf16"
    revision = 1
    figure_milli = 165_000
    created_by = "user_operator"
    created_at = JOINED
