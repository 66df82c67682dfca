"""A process that comes back after another took over is a flip; three in ten minutes mean a copied key."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.nodes.rules.clones import FLIPS_TO_SUSPEND, Opening, flips

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


def openings(text: str, *, each: timedelta = timedelta(seconds=30)) -> list[Opening]:
    return [Opening(name, NOW - each * (len(text) - 1 - index)) for index, name in enumerate(text)]


@pytest.mark.parametrize(
    ("order", "count"),
    [("", 0), ("A", 0), ("AAAA", 0), ("AB", 0), ("ABCDEFGH", 0), ("ABA", 1), ("ABAB", 2), ("ABABA", 3), ("ABCA", 1)],
)
def test_flips(order, count):
    assert flips(openings(order), now=NOW) == count


def test_a_process_that_opens_again_without_a_rival_is_no_flip():
    assert flips(openings("AABBAA"), now=NOW) == 1


def test_old_flips_are_forgotten_but_old_faces_are_remembered():
    slow = openings("ABABA", each=timedelta(minutes=6))

    assert flips(slow, now=NOW) == 2


def test_a_crash_loop_is_not_a_clone():
    restarts = openings("ABCDEFGHIJKLMNOPQRSTUVWXYZ", each=timedelta(seconds=5))

    assert flips(restarts, now=NOW) < FLIPS_TO_SUSPEND
