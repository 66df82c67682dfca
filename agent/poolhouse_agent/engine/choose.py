"""Picks the engine for what the portal wants, or refuses it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from poolhouse_agent.config import Config
from poolhouse_agent.engine.base import Engine
from poolhouse_agent.engine.external import ExternalEngine
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

_FOLDER_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


@dataclass(frozen=True, slots=True)
class Workshop:
    """What engines are made from on this machine; `simulator`, where set, makes simulated ones within this process."""

    config: Config
    http: aiohttp.ClientSession
    engines: Path
    gpus: GpuChoice
    simulated_behaviour: str = ""
    behaviour_file: Path = Path("behaviour")
    simulator: Callable[[Desired], Engine] | None = None


def engine_for(desired: Desired, workshop: Workshop) -> Engine:
    """Return the engine for a deployment. Raises EngineError."""
    folder = workshop.engines / folder_name(desired.deployment)
    match desired.engine:
        case "external":
            return ExternalEngine(desired, config=workshop.config, http=workshop.http)
        case "simulate":
            from poolhouse_agent.engine.simulated import SimulatedEngine

            if workshop.simulator is not None:
                return workshop.simulator(desired)
            if not workshop.simulated_behaviour:
                raise EngineError("simulated_engine_refused", "this node joined without --simulate")
            return SimulatedEngine(
                desired,
                behaviour=workshop.simulated_behaviour,
                behaviour_file=workshop.behaviour_file,
                folder=folder,
                http=workshop.http,
            )
        case "vllm":
            from poolhouse_agent.engine.vllm import VllmEngine

            return VllmEngine(desired, config=workshop.config, folder=folder, http=workshop.http, gpus=workshop.gpus)
    raise EngineError("engine_argument_refused", f"engine {desired.engine!r}")


def folder_name(deployment: str) -> str:
    """A deployment id that is safe as a folder's name. Raises EngineError."""
    if not deployment or not set(deployment) <= _FOLDER_CHARACTERS:
        raise EngineError("engine_argument_refused", "the deployment id has odd characters")
    return deployment
