"""What this software can and cannot do on this machine, in sentences, from what the checks found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from poolhouse_agent.checks.result import Result, Status


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing, whether it is possible here, and why not."""

    id: str
    what: str
    is_possible: bool
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """The ability as `doctor --json` prints it."""
        return {"id": self.id, "what": self.what, "is_possible": self.is_possible, "why": self.why}


_NEEDS = (
    ("join", "join a pool", ("system", "python", "state")),
    ("serve_vllm", "serve models with vLLM", ("system", "python", "gpu", "gpu.cuda", "engine", "weights")),
    ("serve_external", "serve from a server that runs already", ("system", "python", "external")),
)
_MUST_BE_THERE = {"serve_vllm": ("gpu", "engine"), "serve_external": ("external",)}


def abilities(results: Sequence[Result]) -> list[Ability]:
    """Return what is possible. One GPU in order is enough to serve, whatever is wrong with another."""
    return [_ability(name, what, needs, results) for name, what, needs in _NEEDS]


def _ability(name: str, what: str, needs: Iterable[str], results: Sequence[Result]) -> Ability:
    for check in needs:
        found = [result for result in results if result.id == check]
        bad = [result for result in found if result.status is Status.FAIL]
        good = [result for result in found if result.status in {Status.OK, Status.WARN} and _helps(result, bad)]
        is_missing = check in _MUST_BE_THERE.get(name, ()) and not good
        if (bad and not good) or is_missing:
            worst = next(iter([*bad, *found]), None)
            return Ability(name, what, is_possible=False, why=_why(worst, check))
    return Ability(name, what, is_possible=True)


def _helps(result: Result, bad: Sequence[Result]) -> bool:
    """A missing engine is a warning, since the agent can install one, and serves nothing all the same; so does a GPU
    that is read well and named by a failure."""
    if result.id == "gpu":
        uuid = result.evidence.get("uuid", "")
        return bool(uuid) and all(failure.detail != uuid for failure in bad)
    return result.code != "engine_missing"


def _why(result: Result | None, check: str) -> str:
    return result.sentence if result is not None else f"{check} was not looked at"
