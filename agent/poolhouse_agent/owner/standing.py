"""Whether this machine serves now, and if not, why and until when: one pure question."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial

from poolhouse_agent.owner import windows
from poolhouse_agent.owner.rules import OwnerRules


class Action(StrEnum):
    """What the agent does: serve; take nothing new; or take nothing new, then free the GPUs as well."""

    SERVE = "serve"
    DRAIN = "drain"
    REST = "rest"


@dataclass(frozen=True, slots=True)
class Pause:
    """The owner's own word; `until` None lasts until `resume`."""

    since: datetime
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What the owner allows now. `code` is of the failure catalogue; `until` is None where nobody can tell."""

    action: Action
    code: str = ""
    until: datetime | None = None
    detail: str = ""


def decide(*, rules: OwnerRules, pause: Pause | None, in_use: str, is_draining: bool, now: datetime) -> Standing:
    """Say what the owner allows; `in_use` describes the owner's own use of a GPU, empty where there is none."""
    if pause is not None and (pause.until is None or now < pause.until):
        return Standing(Action.REST, "owner_paused", pause.until)
    if in_use:
        return Standing(Action.REST, "owner_uses_gpu", None, in_use)
    if by_clock := _by_clock(rules, now):
        return by_clock
    return Standing(Action.DRAIN, "drain_requested") if is_draining else Standing(Action.SERVE)


def next_rest(rules: OwnerRules, *, now: datetime) -> datetime | None:
    """When the clock next ends serving; None where it does not within eight days, or has."""
    if _clock_code(rules, now):
        return None
    return windows.next_change(_windows(rules), partial(_clock_code, rules), now=now, zone=rules.zone)


def _by_clock(rules: OwnerRules, now: datetime) -> Standing | None:
    code = _clock_code(rules, now)
    if not code:
        return None
    is_resting = partial(_is_resting, rules)
    until = windows.next_change(_windows(rules), is_resting, now=now, zone=rules.zone)
    return Standing(Action.REST, code, until)


def _clock_code(rules: OwnerRules, now: datetime) -> str:
    if windows.is_within(rules.quiet, now=now, zone=rules.zone):
        return "owner_quiet_hours"
    if rules.serve and not windows.is_within(rules.serve, now=now, zone=rules.zone):
        return "owner_outside_schedule"
    return ""


def _is_resting(rules: OwnerRules, now: datetime) -> bool:
    return bool(_clock_code(rules, now))


def _windows(rules: OwnerRules) -> tuple[windows.Window, ...]:
    return rules.serve + rules.quiet
