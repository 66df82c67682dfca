"""Whose share holds: the provider's own, else its tier's, else the pool's default."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class Source(StrEnum):
    """Where a share comes from."""

    OWN = "own"
    TIER = "tier"
    DEFAULT = "default"


class Version(Protocol):
    """A stored share; without basis points there is none from then on."""

    @property
    def share_bps(self) -> int | None:
        """The share."""

    @property
    def effective_from(self) -> datetime:
        """From when it holds."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share in basis points, and where it comes from."""

    bps: int
    source: Source


def share_of(*, own: int | None, tier: int | None, default: int) -> Share:
    """Return the share that holds; None: there is none of that kind."""
    if own is not None:
        return Share(own, Source.OWN)
    if tier is not None:
        return Share(tier, Source.TIER)
    return Share(default, Source.DEFAULT)


@dataclass(frozen=True, slots=True)
class Step:
    """A provider's share from a moment on."""

    effective_from: datetime
    share: Share
    tier: str


def history(
    *,
    own: Iterable[Version],
    moves: Iterable[tuple[datetime, str]],
    tiers: Mapping[str, Iterable[Version]],
    default: Iterable[Version],
    fallback_bps: int,
) -> list[Step]:
    """Return every step of one provider's share, oldest first; `moves` say into which tier it went ("": into none).

    A moment that changes nothing for the provider is left out.
    """
    changes = [(row.effective_from, "own", "", row.share_bps) for row in own]
    changes += [(row.effective_from, "default", "", row.share_bps) for row in default]
    changes += [(at, "move", name, None) for at, name in moves]
    changes += [(row.effective_from, "tier", name, row.share_bps) for name, rows in tiers.items() for row in rows]
    state: dict[str, int | None] = {"own": None, "default": fallback_bps}
    of_tier: dict[str, int | None] = {}
    tier, steps = "", list[Step]()
    for at, what, name, bps in sorted(changes, key=lambda change: change[0]):
        if what == "move":
            tier = name
        elif what == "tier":
            of_tier[name] = bps
        else:
            state[what] = bps
        share = share_of(own=state["own"], tier=of_tier.get(tier), default=state["default"] or 0)
        step = Step(at, share, tier)
        if steps and steps[-1].effective_from == at:
            steps.pop()
        if not steps or (steps[-1].share, steps[-1].tier) != (step.share, step.tier):
            steps.append(step)
    return steps
