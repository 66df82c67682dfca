"""Tells a restarted agent from a copied key: a process never comes back after another took over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

FLIP_WINDOW = timedelta(minutes=10)
FLIPS_TO_SUSPEND = 3


@dataclass(frozen=True, slots=True)
class Opening:
    """One generation of a node's sessions: which process opened it, and when."""

    instance: str
    at: datetime


def flips(openings: Sequence[Opening], *, now: datetime) -> int:
    """Count how often, within the window, an instance came back after another had taken over (oldest first)."""
    seen: set[str] = set()
    latest = ""
    count = 0
    for opening in openings:
        came_back = opening.instance != latest and opening.instance in seen
        if came_back and opening.at > now - FLIP_WINDOW:
            count += 1
        seen.add(opening.instance)
        latest = opening.instance
    return count
