"""What reported GPUs mean for a node's work."""

import pytest
from poolhouse_common import gpu_faults

from portal.nodes.rules import hardware
from portal.nodes.rules.beats import GpuClaim, GpuError

A, B = "GPU-a", "GPU-b"


def claim(uuid):
    return GpuClaim(uuid=uuid, index=0, name="", memory_bytes=None, driver="", compute_capability="")


@pytest.mark.parametrize(
    ("claims", "errors", "codes"),
    [
        ((A, B), (), ()),
        ((A, B), (("mig_enabled", A),), ()),
        ((A, B), (("mig_enabled", A), ("ecc_uncorrected", B)), ("mig_enabled", "ecc_uncorrected")),
        ((A,), (("remap_pending", A),), ()),
        ((B,), (("gpu_is_lost", A),), ()),
        ((), (("nvml_hung", "no answer"),), ("nvml_hung",)),
        ((), (), ()),
    ],
)
def test_errors_block_a_node_only_where_no_gpu_is_left(claims, errors, codes):
    found = hardware.blocking([claim(uuid) for uuid in claims], [GpuError(*error) for error in errors])

    assert found == codes


@pytest.mark.parametrize(
    ("claims", "errors", "code"),
    [
        ((), ("nvml_library_mismatch",), "nvml_library_mismatch"),
        ((), ("no_gpu",), ""),
        ((A,), ("nvml_library_mismatch",), ""),
        ((), (), ""),
    ],
)
def test_a_library_that_says_nothing_is_told_from_a_machine_without_gpus(claims, errors, code):
    found = hardware.unreadable_library([claim(uuid) for uuid in claims], [GpuError(one, "") for one in errors])

    assert found == code


def test_the_first_fault_of_a_gpu_counts():
    errors = [GpuError("remap_pending", A), GpuError("ecc_uncorrected", A), GpuError("gpu_is_lost", B)]

    assert hardware.faults_by_gpu(errors) == {A: "remap_pending", B: "gpu_is_lost"}
    assert hardware.unfit_by_gpu(errors) == {A: "ecc_uncorrected", B: "gpu_is_lost"}


@pytest.mark.parametrize("faults", [[], [""], ["mig_enabled", ""], ["ecc_uncorrected"]])
def test_a_machine_with_one_gpu_that_could_serve_is_not_refused(faults):
    hardware.require_a_kind_that_serves(faults)


@pytest.mark.parametrize("fault", sorted(gpu_faults.REFUSALS))
def test_a_machine_of_a_kind_that_cannot_serve_is_refused_with_its_fix(fault):
    with pytest.raises(hardware.GpusCannotServe) as raised:
        hardware.require_a_kind_that_serves([fault, "mig_enabled"])

    assert raised.value.code == "gpus_cannot_serve"
    assert raised.value.fix


@pytest.mark.parametrize(
    ("whole", "slices", "memory"),
    [(80, (), 80), (None, (), None), (80, (40, 20), 60), (80, (40, None), None), (None, (40,), 40)],
)
def test_memory_is_the_slices_or_the_wholes_and_never_both(whole, slices, memory):
    assert hardware.memory_bytes(whole=whole, slices=slices) == memory


@pytest.mark.parametrize(
    ("values", "notes"),
    [
        ({}, ()),
        ({"throttle_reasons": 0x5}, ()),
        ({"throttle_reasons": 0x20}, ("thermal_slowdown",)),
        ({"throttle_reasons": 0x88}, ("thermal_slowdown", "power_brake")),
        ({"virtualization": 1}, ()),
        ({"virtualization": 2}, ("vgpu",)),
        ({"power_limit_mw": 250_000, "power_default_mw": 350_000}, ("power_capped",)),
        ({"power_limit_mw": 350_000}, ()),
        ({"pcie_width": 1, "pcie_width_max": 16}, ("pcie_narrow",)),
        ({"pcie_width": 16, "pcie_width_max": 16}, ()),
    ],
)
def test_notes_come_from_what_is_known(values, notes):
    assert gpu_faults.notes(values) == notes
