"""Where a live node stands."""

from dataclasses import replace

import pytest
from poolhouse_common import failures

from portal.nodes.models import NodeState
from portal.nodes.rules.standing import DeploymentFact, Facts, Standing, standing

READY = DeploymentFact(is_wanted=True, observed="ready", code="", running=0)
HEALTHY = Facts(
    provider_state="approved",
    is_agreement_accepted=True,
    is_drain_wanted=False,
    is_inventory_known=True,
    gpu_errors=(),
    deployments=(READY,),
)


def test_a_ready_model_on_a_known_machine_of_an_approved_provider_serves():
    assert standing(HEALTHY) == Standing("serving", "serving")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"is_inventory_known": False}, Standing("checking", "waiting_for_inventory")),
        ({"is_inventory_known": False, "gpu_errors": ("no_gpu",)}, Standing("degraded", "no_gpu")),
        ({"provider_state": "draft"}, Standing("ready", "provider_not_approved")),
        ({"provider_state": "submitted"}, Standing("ready", "provider_not_approved")),
        ({"provider_state": "rejected"}, Standing("ready", "provider_not_approved")),
        ({"provider_state": "suspended"}, Standing("ready", "provider_suspended")),
        ({"is_agreement_accepted": False}, Standing("ready", "agreement_missing")),
        ({"deployments": ()}, Standing("ready", "no_deployment")),
        ({"deployments": (replace(READY, is_wanted=False),)}, Standing("ready", "no_deployment")),
        ({"deployments": (replace(READY, observed="pending"),)}, Standing("ready", "deployment_pending")),
        ({"deployments": (replace(READY, observed="starting"),)}, Standing("ready", "deployment_starting")),
        ({"deployments": (replace(READY, observed="failed"),)}, Standing("degraded", "deployment_failed")),
        (
            {"deployments": (replace(READY, observed="failed", code="out_of_gpu_memory"),)},
            Standing("degraded", "out_of_gpu_memory"),
        ),
        ({"deployments": (replace(READY, observed="stuck"),)}, Standing("degraded", "engine_stuck")),
        ({"deployments": (replace(READY, observed="failed"), READY)}, Standing("serving", "serving")),
        ({"gpu_errors": ("nvml_library_mismatch",)}, Standing("serving", "serving")),
        ({"is_drain_wanted": True}, Standing("maintenance", "drained")),
        (
            {"is_drain_wanted": True, "deployments": (replace(READY, running=2),)},
            Standing("draining", "drain_requested"),
        ),
    ],
)
def test_what_stands_in_the_way_is_named(change, expected):
    assert standing(replace(HEALTHY, **change)) == expected


def test_a_running_engine_is_not_taken_away_for_a_gpu_that_another_model_lost():
    facts = replace(HEALTHY, gpu_errors=("gpu_is_lost",), deployments=(READY, replace(READY, observed="failed")))

    assert standing(facts).state == "serving"


def test_every_code_has_an_entry_and_every_state_is_known():
    changes = [
        {},
        {"is_inventory_known": False},
        {"provider_state": "draft"},
        {"provider_state": "suspended"},
        {"is_agreement_accepted": False},
        {"deployments": ()},
        {"deployments": (replace(READY, observed="pending"),)},
        {"deployments": (replace(READY, observed="starting"),)},
        {"deployments": (replace(READY, observed="failed"),)},
        {"deployments": (replace(READY, observed="stuck"),)},
        {"is_drain_wanted": True},
        {"is_drain_wanted": True, "deployments": (replace(READY, running=1),)},
    ]
    for change in changes:
        found = standing(replace(HEALTHY, **change))
        assert failures.find(found.code) is not None, found.code
        assert found.state in NodeState.values
        assert found.cause == failures.explain(found.code).source
