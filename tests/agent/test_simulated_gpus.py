"""Simulated GPUs: mixed, cut up and unified ones look to the portal as real ones do."""

import pytest
from poolhouse_agent.simulate import gpus, profile
from poolhouse_agent.simulate.inventory import SimulatedInventory

from portal.nodes.rules import readings


def test_cards_are_mixed_in_the_order_they_are_named() -> None:
    found = gpus.report("rtx3090x2+l40s", node="node_a")

    assert [(gpu["index"], gpu["name"]) for gpu in found] == [
        (0, "NVIDIA GeForce RTX 3090"), (1, "NVIDIA GeForce RTX 3090"), (2, "NVIDIA L40S"),
    ]  # fmt: skip
    assert len({gpu["uuid"] for gpu in found}) == 3
    assert found[2]["values"]["topology"] == [40, 40, 0]


def test_ids_are_the_nodes_own_and_stay() -> None:
    assert gpus.report("h100x2", node="node_a") == gpus.report("h100x2", node="node_a")
    assert gpus.report("h100", node="node_a")[0]["uuid"] != gpus.report("h100", node="node_b")[0]["uuid"]


@pytest.mark.parametrize(
    ("name", "codes"),
    [("rtx4090x2", []), ("a100+mig-a100", ["mig_enabled"]), ("gb10", ["unified_memory_unsupported"])],
)
def test_what_a_real_report_would_find_is_found(name: str, codes: list[str]) -> None:
    report = SimulatedInventory(name, node="node_a").latest

    assert [error["code"] for error in report.errors] == codes
    assert {error["detail"] for error in report.errors} <= {gpu["uuid"] for gpu in report.gpus}


def test_a_cut_card_has_slices_of_its_memory() -> None:
    (cut,) = gpus.report("mig-h100", node="node_a")

    assert [one["memory_bytes"] for one in cut["instances"]] == [42_760_404_992, 21_380_202_496]
    assert len({one["uuid"] for one in cut["instances"]}) == 2


@pytest.mark.parametrize("name", sorted(gpus.CARDS))
def test_the_portal_believes_every_simulated_value(name: str) -> None:
    (gpu,) = gpus.report(name, node="node_a")
    told = {key: value for key, value in gpu["values"].items() if key != "processes"}

    kept = readings.gpu(told, gpu["missing"])

    assert kept.values == told
    assert kept.missing == gpu["missing"]


@pytest.mark.parametrize("name", ["rtx4091", "rtx4090x9", "rtx4090x5+rtx3090x4", "rtx4090+", "mig-", ""])
def test_what_is_unknown_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="GPUs"):
        gpus.parse(name)


def test_a_profile_names_gpus_and_behaviour() -> None:
    assert profile.parse("rtx3090+rtx4090:slow") == profile.Profile("rtx3090+rtx4090", "slow")
