"""Picks the engine for what the portal wants, or refuses it."""

from pathlib import Path

from poolhouse_agent.engine.base import Engine, Recipe
from poolhouse_agent.engine.external import ExternalEngine
from poolhouse_agent.engine.own import OwnEngine
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

__all__ = ["Workshop", "engine_for", "folder_name", "place_name"]

_FOLDER_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def engine_for(desired: Desired, workshop: Workshop, *, place: str = "", eased: int = 0) -> Engine:
    """Return the engine for a deployment; `place` tells two engines of one deployment apart. Raises EngineError.

    `eased` says how much the engine's demands are lowered after it ran out of memory: not at all, a little, or more.
    """
    folder = workshop.engines / place_name(desired, place)
    match desired.engine:
        case "external":
            return ExternalEngine(desired, config=workshop.config, http=workshop.http)
        case "simulate":
            if workshop.simulator is not None:
                return workshop.simulator(desired)
            return _own(desired, workshop, folder, _simulated(desired, workshop))
        case "vllm":
            from poolhouse_agent.engine.vllm import VllmRecipe

            return _own(desired, workshop, folder, VllmRecipe(desired, workshop=workshop, folder=folder, eased=eased))
    raise EngineError("engine_argument_refused", f"engine {desired.engine!r}")


def _simulated(desired: Desired, workshop: Workshop) -> Recipe:
    from poolhouse_agent.engine.simulated import SimulatedRecipe

    if not workshop.simulated_behaviour:
        raise EngineError("simulated_engine_refused", "this node joined without --simulate")
    return SimulatedRecipe(desired, behaviour=workshop.simulated_behaviour, behaviour_file=workshop.behaviour_file)


def _own(desired: Desired, workshop: Workshop, folder: Path, recipe: Recipe) -> OwnEngine:
    return OwnEngine(desired, recipe, folder=folder, launcher=workshop.launcher, http=workshop.http)


def place_name(desired: Desired, place: str) -> str:
    """The name of an engine's folder. Raises EngineError."""
    return folder_name(desired.deployment) + (f"-{place}" if place else "")


def folder_name(deployment: str) -> str:
    """A deployment id that is safe as a folder's name. Raises EngineError."""
    if not deployment or not set(deployment) <= _FOLDER_CHARACTERS:
        raise EngineError("engine_argument_refused", "the deployment id has odd characters")
    return deployment
