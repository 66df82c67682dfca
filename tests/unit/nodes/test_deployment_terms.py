"""What a deployment may ask of a node."""

import pytest

from portal.core.errors import InvalidValue
from portal.nodes.rules import deployments


@pytest.mark.parametrize(
    ("engine", "is_simulated", "may_use_external", "error"),
    [
        ("vllm", False, False, None),
        ("simulate", True, False, None),
        ("external", False, True, None),
        ("external", True, True, None),
        ("external", False, False, deployments.ExternalEngineRefused),
        ("simulate", False, True, deployments.SimulatedEngineRefused),
        ("vllm", True, True, deployments.SimulatedEngineRefused),
    ],
)
def test_which_engine_a_node_may_use(engine, is_simulated, may_use_external, error):
    if error is None:
        deployments.require_engine(engine=engine, is_simulated=is_simulated, may_use_external=may_use_external)
        return
    with pytest.raises(error):
        deployments.require_engine(engine=engine, is_simulated=is_simulated, may_use_external=may_use_external)


def test_known_settings_pass():
    given = {
        "gpu_uuids": ["GPU-5b6d6a7e-0000-0000-0000-000000000001"],
        "gpu_memory_utilization": 0.9,
        "tensor_parallel_size": 2,
        "embedding_dimensions": 256,
    }

    assert deployments.require_settings(given) == given


@pytest.mark.parametrize(
    "settings",
    [
        {"command": "sh"},
        {"weights": "/etc"},
        {"gpu_uuids": []},
        {"gpu_uuids": ["$(reboot)"]},
        {"gpu_uuids": "GPU-1"},
        {"gpu_memory_utilization": 1.5},
        {"gpu_memory_utilization": True},
        {"tensor_parallel_size": 3},
        {"embedding_dimensions": 0},
        {"embedding_dimensions": 8193},
        {"embedding_dimensions": "256"},
        {"tensor_parallel_size": "2"},
    ],
)
def test_anything_else_is_refused(settings):
    with pytest.raises(InvalidValue):
        deployments.require_settings(settings)


@pytest.mark.parametrize("value", [0, -1, 4097])
def test_concurrency_has_bounds(value):
    with pytest.raises(InvalidValue):
        deployments.require_concurrency(value)
