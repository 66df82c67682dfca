"""When the next heartbeat is due."""

from poolhouse_agent.heartbeat import next_beat_s


def test_a_fleet_that_was_held_up_together_does_not_beat_in_step():
    due = sorted(next_beat_s(15.0) for _ in range(1000))

    assert 13.5 <= due[0] < 13.6
    assert 14.9 < due[-1] <= 15.0
    assert {int((moment - 13.5) / 0.15) for moment in due} >= set(range(10))
