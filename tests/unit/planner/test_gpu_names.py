"""GPUs as people and drivers write them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poolhouse_common.planner import MAX_GPUS, GpusRefused, default_kinds, find_kind, kind_of, parse_gpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 x 4090", ["RTX 4090"] * 3),
        ("3 × 4090", ["RTX 4090"] * 3),  # noqa: RUF001  what people type
        ("3x4090", ["RTX 4090"] * 3),
        ("4090 x 3", ["RTX 4090"] * 3),
        ("3 4090", ["RTX 4090"] * 3),
        ("4090", ["RTX 4090"]),
        ("rtx-4090", ["RTX 4090"]),
        ("2 x RTX 3090, 1 A100 80GB", ["RTX 3090"] * 2 + ["A100 SXM 80GB"]),
        ("3090 Ti + 3090", ["RTX 3090 Ti", "RTX 3090"]),
        ("8*h100", ["H100 SXM"] * 8),
        ("L40S; L40", ["L40S", "L40"]),
    ],
)
def test_what_people_write(text: str, expected: list[str]):
    assert [gpu.name for gpu in parse_gpus(text)] == expected


@pytest.mark.parametrize(
    ("driver", "kind"),
    [
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 3090 Ti", "RTX 3090 Ti"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA GeForce RTX 4060 Ti", "RTX 4060 Ti 16GB"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
    ],
)
def test_what_the_driver_calls_them(driver: str, kind: str):
    found = find_kind(driver)

    assert found is not None
    assert found.name == kind


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "NVIDIA RTX A1000", "NVIDIA T400",
        "NVIDIA A40-24C", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "4090 48GB", "RTX 3080 12GB", "RTX 4070 Ti",
    ],
)  # fmt: skip
def test_relatives_of_a_known_name_are_not_taken_for_it(name: str):
    assert find_kind(name) is None


@pytest.mark.parametrize("name", ["", "???", "Voodoo 5", "Radeon RX 7900"])
def test_unknown_kinds_are_unknown(name: str):
    assert find_kind(name) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "gpus_missing"),
        (" , ;", "gpus_missing"),
        ("0 x 4090", "gpus_missing"),
        ("2 x Voodoo", "gpu_unknown"),
        ("x" * 200, "gpu_unknown"),
        ("65 x 4090", "gpus_too_many"),
        ("40 x 4090, 40 x 3090", "gpus_too_many"),
    ],
)
def test_what_cannot_be_read_says_which(text: str, code: str):
    with pytest.raises(GpusRefused) as refused:
        parse_gpus(text)

    assert refused.value.code == code


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_text_does_worse_than_be_refused(text: str):
    try:
        found = parse_gpus(text)
    except GpusRefused:
        return
    assert 1 <= len(found) <= MAX_GPUS


def test_every_shipped_kind_is_found_by_each_of_its_spellings():
    for kind in default_kinds():
        for spelling in (kind.name, *kind.aliases):
            found = find_kind(spelling)
            assert found is not None
            assert found.name == kind.name, spelling


@pytest.mark.parametrize(
    "change", [{"memory_mib": -1}, {"watts": True}, {"bf16_tflops": "fast"}, {"bandwidth_gbps": 1.5}]
)
def test_figures_that_are_none_are_refused(change: dict[str, object]):
    row = {
        "name": "some GPU", "memory_mib": 1, "bandwidth_gbps": 1, "bf16_tflops": 1.5, "watts": 1, "capability": "8.9",
    }  # fmt: skip

    with pytest.raises(ValueError, match="is not a"):
        kind_of(row | change)


def test_the_table_is_plausible():
    for kind in default_kinds():
        assert 8 << 30 < kind.memory_bytes < 300 << 30, kind.name
        assert 200 * 10**9 < kind.bandwidth <= 8000 * 10**9, kind.name
        assert 20 * 10**12 < kind.flops <= 2500 * 10**12, kind.name
        assert kind.measured_flops <= kind.flops * 1.15, kind.name
        assert 50 < kind.watts <= 1500, kind.name
