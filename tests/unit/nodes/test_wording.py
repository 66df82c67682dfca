"""How readings are written."""

import pytest

from portal.nodes.rules import readings
from portal.nodes.selectors import wording


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("memory_used_bytes", 512_000_000, "0.5 GiB"), ("temperature_c", 0, "0 °C"), ("utilization_percent", 0, "0 %"),
        ("power_mw", 28_500, "28 W"), ("energy_mj", 3_600_000_000, "1.00 kWh"), ("clock_sm_mhz", 2_520, "2,520 MHz"),
        ("memory_bus_bits", 384, "384 bit"), ("cores", 16_384, "16,384"), ("pci_id", 0x268410DE, "0x268410de"),
        ("performance_state", 8, "P8"), ("pcie_width", 16, "x16"), ("ecc_enabled", 0, "no"), ("mig", 1, "yes"),
        ("unified", False, "no"), ("throttle_reasons", 0, "nothing"), ("throttle_reasons", 1, "idle"),
        ("throttle_reasons", 0x44, "power cap, heat (hardware)"), ("throttle_reasons", 0x1004, "power cap, 0x1000"),
        ("virtualization", 2, "a share of a card (vGPU)"), ("virtualization", 9, "9"), ("virtualization", "kvm", "kvm"),
        ("compute_mode", 3, "one process"), ("architecture", 9, "Hopper"), ("architecture", 77, "77"),
        ("xids", [], "none"), ("xids", [13, 79], "13, 79"), ("topology", [0], "no other GPU"),
        ("topology", [0, 10, None], "GPU 1: one switch, GPU 2: unknown"), ("topology", [70, 0], "GPU 0: 70"),
        ("uptime_s", 7_200, "2.0 hours"), ("uptime_s", 172_800, "2.0 days"), ("load_1m", 0.5, "0.5"),
        ("cpu_limit_milli", 1_500, "1.5 processors"), ("network_speed_mbits", 10_000, "10,000 Mbit/s"),
        ("kernel", "6.1.0", "6.1.0"), ("serial", None, ""),
    ],
)  # fmt: skip
def test_a_reading_is_written_with_its_unit(name, value, written):
    assert wording.text(name, {name: value}) == written


def test_what_is_not_there_is_no_text():
    assert wording.text("power_mw", {}) == ""


def test_every_reading_has_a_place_on_the_page():
    assert {name for group in wording.GPU.values() for name in group} == set(readings.GPU)
    assert {name for group in wording.HOST.values() for name in group} == set(readings.HOST)
