"""The one transition table of nodes."""

import pytest

from portal.nodes.models import NodeState
from portal.nodes.rules import states


def test_the_table_knows_exactly_the_states_of_the_model():
    assert set(states.NODE_MOVES) == set(NodeState.values)
    assert {after for moves in states.NODE_MOVES.values() for after in moves} <= set(NodeState.values)


def test_no_state_moves_to_itself():
    assert [state for state, after in states.NODE_MOVES.items() if state in after] == []


def test_a_retired_node_stays_retired():
    assert states.NODE_MOVES["retired"] == frozenset()


def test_every_other_node_can_be_retired_and_every_open_one_suspended():
    assert {state for state, after in states.NODE_MOVES.items() if "retired" not in after} == {"retired"}
    assert {state for state, after in states.NODE_MOVES.items() if "suspended" not in after} == {
        "retired",
        "suspended",
    }


def test_a_suspended_node_cannot_be_moved_by_a_heartbeat():
    assert states.NODE_MOVES["suspended"] & states.LIVE_STATES == frozenset()


def test_a_move_off_the_table_is_refused():
    with pytest.raises(states.NodeMoveRefused, match="retired cannot become serving"):
        states.require_move(before="retired", after="serving")
