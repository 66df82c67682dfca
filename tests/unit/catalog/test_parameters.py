"""The names that a catalogue entry may use."""

import pytest

from portal.catalog.models import ModelState
from portal.catalog.rules import parameters, states
from portal.core.errors import InvalidValue


def test_known_arguments_pass():
    given = {
        "enable_prefix_caching": True,
        "max_num_seqs": 64,
        "gpu_memory_utilization": 0.9,
        "tensor_parallel_size": 2,
        "tool_call_parser": "hermes",
        "kv_cache_dtype": "fp8_e5m2",
    }

    assert parameters.require_engine_arguments(given) == given


@pytest.mark.parametrize(
    "arguments",
    [
        {"trust_remote_code": True},
        {"host": "192.0.2.1"},
        {"api_key": "x"},
        {"enable_prefix_caching": 1},
        {"max_num_seqs": True},
        {"max_num_seqs": 0},
        {"gpu_memory_utilization": 1.0},
        {"gpu_memory_utilization": "0.9"},
        {"tensor_parallel_size": 3},
        {"tool_call_parser": "x --trust-remote-code"},
        {"tool_call_parser": "../../etc"},
        {"tool_call_parser": ""},
        {"kv_cache_dtype": ["fp8"]},
    ],
)
def test_everything_else_is_refused(arguments):
    with pytest.raises(parameters.EngineArgumentRefused):
        parameters.require_engine_arguments(arguments)


def test_supported_parameters_are_sorted_and_known():
    assert parameters.require_supported_parameters(["top_k", "tools", "tools"]) == ["tools", "top_k"]
    with pytest.raises(InvalidValue, match="cache_salt"):
        parameters.require_supported_parameters(["tools", "cache_salt"])


def test_the_models_life():
    assert set(states.MODEL_MOVES) == set(ModelState.values)
    assert states.MODEL_MOVES["retired"] == frozenset()
    assert "draft" not in {after for moves in states.MODEL_MOVES.values() for after in moves}
    with pytest.raises(states.ModelMoveRefused):
        states.require_move(before="retired", after="active")
