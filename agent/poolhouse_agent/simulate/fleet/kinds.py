"""The characters of simulated nodes: what real owners' machines do to a pool, one word each."""

from dataclasses import dataclass

from poolhouse_agent.errors import ConfigError

_PLAIN = ("rtx4090x2", "rtx4090", "rtx3090x4", "l40sx2", "a100x8", "h100x8")


@dataclass(frozen=True, slots=True)
class Rhythm:
    """On for `on_s` seconds, off for `off_s`, for ever. Each node is at its own point of it."""

    on_s: float
    off_s: float

    def is_on(self, at_s: float) -> bool:
        """Whether it is on `at_s` seconds after its beginning."""
        return at_s % (self.on_s + self.off_s) < self.on_s

    def next_change_s(self, at_s: float) -> float:
        """How long from `at_s` until it changes."""
        place = at_s % (self.on_s + self.off_s)
        return self.on_s - place if place < self.on_s else self.on_s + self.off_s - place


@dataclass(frozen=True, slots=True)
class Kind:
    """One character. What is not named is as on a healthy node."""

    name: str
    about: str
    gpus: tuple[str, ...] = _PLAIN
    behaviour: str = "honest"
    clock_ahead_s: float = 0.0
    delay_s: tuple[float, float] = (0.0, 0.0)
    network: Rhythm | None = None
    process: Rhythm | None = None
    owner: Rhythm | None = None
    boasts: float = 1.0
    loses_gpu_after_s: float | None = None
    leaves_after_s: float | None = None
    has_twin: bool = False


_KINDS = (
    Kind("healthy", "works"),
    Kind("flapping", "its network is gone for a minute or so, every few minutes", network=Rhythm(150.0, 75.0)),
    Kind("slow", "answers late and generates slowly", behaviour="slow", delay_s=(0.5, 3.0)),
    Kind("cheating", "claims thrice the tokens, and cards faster than any", ("h200x8",), "inflate-3", boasts=3.0),
    Kind("broken", "its engine breaks off in the middle of answers", behaviour="breaks"),
    Kind("mig", "its GPUs are cut into slices", ("mig-a100x2", "mig-a100+a100")),
    Kind("lost-gpu", "a GPU falls off the bus", ("rtx4090x2", "rtx3090x4"), loses_gpu_after_s=20.0),
    Kind("skewed", "its clock is an hour ahead", clock_ahead_s=3600.0),
    Kind("cloned", "its key was copied to a second machine", has_twin=True),
    Kind("quiet", "its owner wants the machine back every few minutes", owner=Rhythm(90.0, 45.0)),
    Kind("restarting", "its agent is started anew every few minutes", process=Rhythm(120.0, 3.0)),
    Kind("leaving", "leaves the pool for good", leaves_after_s=45.0),
)
KINDS = {kind.name: kind for kind in _KINDS}


def find(name: str) -> Kind:
    """Return the kind. Raises ConfigError naming those there are."""
    if name not in KINDS:
        raise ConfigError("config_invalid", f"no kind of node is called {name!r}; there are {', '.join(KINDS)}")
    return KINDS[name]
