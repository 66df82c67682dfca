"""What a result is worth: what cannot be compared waits for a person, and is never taken for zero."""

import pytest
from poolhouse_common import checks as catalogue
from poolhouse_common import failures, limits

from portal.nodes.rules import checks
from portal.nodes.rules.checks import Judgement, Policy, ResultClaim, default_policy, judge

GPU = "GPU-1"


def claim(
    check: str, figure: int | None = None, *, status: str = "ok", code: str = "", version: int = 1
) -> ResultClaim:
    return ResultClaim(check, version, status, GPU, code, "", figure)


@pytest.mark.parametrize("check", catalogue.CHECKS.values(), ids=lambda check: check.id)
def test_every_check_is_complete(check) -> None:
    assert failures.find(check.code) is not None
    assert check.version >= 1
    assert check.title
    assert check.purpose.endswith(".")
    assert not (check.is_compared and check.fail_limit_milli)
    assert check.unit or (check.fail_limit_milli is None and not check.is_compared)
    if check.fail_limit_milli is not None and check.warn_limit_milli is not None:
        assert (check.fail_limit_milli <= check.warn_limit_milli) is check.is_higher_better
    assert default_policy(check.id).mode == "shadow"


@pytest.mark.parametrize(
    ("given", "reference", "wanted"),
    [
        (claim("gpu.matmul.bf16", 100_000), None, Judgement("review", "hardware_unknown")),
        (claim("gpu.matmul.bf16", None), 100_000, Judgement("review", "figure_missing")),
        (claim("gpu.matmul.bf16", 0), 100_000, Judgement("fail", "compute_slow", 70_000)),
        (claim("gpu.matmul.bf16", 70_000), 100_000, Judgement("warn", "compute_slow", 85_000)),
        (claim("gpu.matmul.bf16", 115_000), 100_000, Judgement("pass", "", 85_000)),
        (claim("gpu.matmul.bf16", 115_001), 100_000, Judgement("review", "figure_implausible", 115_000)),
        (claim("gpu.matmul.bf16", 90_000, version=2), 100_000, Judgement("review", "check_unknown")),
        (claim("gpu.matmul.bf16", 90_000, status="warn", code="gpu_uneven"), 100_000, Judgement("warn", "gpu_uneven")),
        (claim("gpu.vram", 84_999), None, Judgement("fail", "vram_unusable", 85_000)),
        (claim("gpu.vram", 89_999), None, Judgement("warn", "vram_unusable", 90_000)),
        (claim("gpu.vram", 90_000), None, Judgement("pass", "", 90_000)),
        (claim("gpu.vram", None, status="fail", code="vram_corrupt"), None, Judgement("fail", "vram_corrupt")),
        (claim("network.round_trip", 250_000), None, Judgement("pass", "", 250_000)),
        (claim("network.round_trip", 250_001), None, Judgement("warn", "network_slow", 250_000)),
        (claim("network.round_trip", 600_001), None, Judgement("fail", "network_slow", 600_000)),
        (claim("gpu.start"), None, Judgement("pass")),
        (claim("gpu.start", status="skip", code="gpu_busy"), None, Judgement("skip", "gpu_busy")),
        (claim("gpu.driver"), None, Judgement("pass")),
        (claim("of.tomorrow", 5), None, Judgement("review", "check_unknown")),
        (claim("of.tomorrow", status="fail", code="of_tomorrow"), None, Judgement("fail", "of_tomorrow")),
    ],
)
def test_a_verdict(given: ResultClaim, reference: int | None, wanted: Judgement) -> None:
    assert judge(given, policy=default_policy(given.id), reference_milli=reference) == wanted


def test_an_agent_cannot_talk_a_figure_up_or_down() -> None:
    policy = default_policy("gpu.vram")

    assert judge(
        claim("gpu.vram", 95_000, status="fail", code="vram_unusable"), policy=policy, reference_milli=None
    ) == (Judgement("pass", "", 90_000))
    assert judge(claim("gpu.vram", 10, status="ok"), policy=policy, reference_milli=None).verdict == "fail"


def test_the_operators_limits_hold_before_the_checks_own() -> None:
    policy = Policy(mode="enforced", revision=3, fail_limit_milli=95_000)

    assert judge(claim("gpu.vram", 94_999), policy=policy, reference_milli=None).verdict == "fail"
    assert judge(claim("gpu.vram", 95_000), policy=policy, reference_milli=None) == Judgement("pass", "", 95_000)


def test_a_check_that_is_off_is_not_judged() -> None:
    assert judge(claim("gpu.vram", 1), policy=Policy(mode="off"), reference_milli=None).verdict == "skip"


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("NVIDIA GeForce RTX 4090", True),
        ("NVIDIA GeForce RTX 4090 D", False),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", False),
        ("NVIDIA RTX A5000 Mobile", False),
        ("Quadro RTX 5000 with Max-Q Design", False),
        ("NVIDIA H100 80GB HBM3", True),
    ],
)
def test_lesser_kinds_of_a_known_name_are_not_compared(name: str, compared: bool) -> None:
    assert (checks.reference_name(name) is not None) is compared


def test_the_median_is_a_figure_that_was_measured() -> None:
    assert checks.median_milli([30, 10, 20]) == 20
    assert checks.median_milli([10, 20, 30, 40]) == 20
    assert checks.median_milli([]) is None


def test_the_share_of_false_alarms() -> None:
    assert checks.false_alarm_bps(alarms=1, healthy=8) == 1_250
    assert checks.false_alarm_bps(alarms=0, healthy=0) is None


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (1_234, "1.23"), (98_250, "98.2"), (165_499, "165"), (165_500, "166"), (2_000_000, "2000")],
)
def test_numbers_are_short(milli: int, text: str) -> None:
    assert limits.number(milli) == text
