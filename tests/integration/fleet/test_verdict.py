"""What counts as harm that a silence did: every kind of it, and nothing that a node's own character explains."""

from dataclasses import replace

from tests.fleet.verdict import Standing, changed

KINDS = {"sim-00000": "healthy", "sim-00001": "leaving"}
BEFORE = Standing(
    desired=frozenset({("sim-00000", "acme/chat", "simulate"), ("sim-00001", "acme/chat", "simulate")}),
    evidence=frozenset({("node_1", "stream_cut", 2)}),
    closed=frozenset(),
)


def test_a_silence_that_changed_nothing_is_no_harm() -> None:
    assert changed(BEFORE, BEFORE, KINDS) == []


def test_what_moved_who_was_closed_and_what_is_held_against_whom_is_harm() -> None:
    after = Standing(
        desired=frozenset(),
        evidence=frozenset({("node_1", "stream_cut", 3)}),
        closed=frozenset({"sim-00000", "sim-00001"}),
    )

    assert changed(BEFORE, after, KINDS) == [
        "held against node_1: stream_cut",
        "sim-00000: acme/chat",
        "sim-00000: closed",
    ]


def test_what_leaves_by_itself_is_not_blamed_on_the_silence() -> None:
    stays = frozenset(row for row in BEFORE.desired if row[0] == "sim-00000")

    assert changed(BEFORE, replace(BEFORE, desired=stays, closed=frozenset({"sim-00001"})), KINDS) == []
