"""What a stranger may say of hardware."""

import pytest

from portal.nodes.rules import readings


def test_what_is_known_and_can_be_is_kept():
    kept = readings.gpu({"temperature_c": 41, "unified": False, "mig": 1, "serial": "A1"}, {"vbios": "not_supported"})

    assert kept.values == {"temperature_c": 41, "unified": False, "mig": 1, "serial": "A1"}
    assert kept.missing == {"vbios": "not_supported"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature_c", 251), ("temperature_c", -1), ("temperature_c", 41.5), ("temperature_c", True),
        ("temperature_c", "41"), ("utilization_percent", 101), ("power_mw", 20_000_001), ("pcie_width", 65),
        ("memory_used_bytes", (1 << 50) + 1), ("mig", 2), ("mig", "yes"), ("serial", ""), ("serial", "x" * 33),
        ("serial", "a\x1b[31m"), ("serial", 7), ("topology", [1_001]), ("topology", ["a"]), ("topology", [True]),
        ("topology", [0] * 65), ("xids", 79), ("xids", [None, -1]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_implausible_and_never_the_number(name, value):
    kept = readings.gpu({name: value}, {})

    assert kept == readings.Readings({}, {name: "implausible"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topology", [0, None, 40]),
        ("xids", []),
        ("xids", [79, 48]),
        ("throttle_reasons", 1 << 40),
        ("virtualization", 9),
    ],
)
def test_an_unknown_enumeration_and_a_gap_pass(name, value):
    assert readings.gpu({name: value}, {}).values == {name: value}


def test_what_is_not_known_is_left_out():
    assert readings.gpu({"colour": "red"}, {"colour": "not_supported"}) == readings.Readings({}, {})


def test_a_null_is_no_value_and_takes_its_reason():
    assert readings.gpu({"power_mw": None}, {"power_mw": "gpu_is_lost"}).missing == {"power_mw": "gpu_is_lost"}


def test_a_value_counts_more_than_a_reason_for_its_absence():
    kept = readings.gpu({"power_mw": 7}, {"power_mw": "not_supported"})

    assert kept == readings.Readings({"power_mw": 7}, {})


@pytest.mark.parametrize("reason", ["", "Not Supported", "x" * 49, 7, None, "1st", "a\n"])
def test_a_reason_that_is_none_is_left_out(reason):
    assert readings.gpu({}, {"power_mw": reason, "name": reason}) == readings.Readings({}, {})


def test_fields_with_a_place_of_their_own_may_have_a_reason_but_no_value():
    kept = readings.gpu({"memory": 7, "name": "x"}, {"memory": "not_supported", "instances": "gpu_is_lost"})

    assert kept == readings.Readings({}, {"memory": "not_supported", "instances": "gpu_is_lost"})


@pytest.mark.parametrize(
    ("name", "value", "is_kept"),
    [
        ("load_1m", 0.5, True), ("load_1m", 3, True), ("load_1m", -0.1, False), ("load_1m", float("inf"), False),
        ("load_1m", float("nan"), False), ("load_1m", True, False), ("os", "Debian 12", True), ("os", "x" * 97, False),
        ("cpu_count", 0, True), ("cpu_count", 65_537, False),
    ],
)  # fmt: skip
def test_readings_of_a_machine(name, value, is_kept):
    kept = readings.host({name: value}, {})

    assert (kept.values == {name: value}) is is_kept
    assert (kept.missing == {name: "implausible"}) is not is_kept
