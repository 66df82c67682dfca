"""An engine that the agent starts itself, or adopts from an agent that went before."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp

from poolhouse_agent.engine.base import Prepared, Recipe
from poolhouse_agent.engine.launch import Launcher
from poolhouse_agent.engine.notes import Note
from poolhouse_agent.engine.process import EngineProcess
from poolhouse_agent.engine.startup import wait_until_listed
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

log = logging.getLogger(__name__)

_ADOPTED_DEADLINE_S = 300.0


class OwnEngine:
    """Processes in a folder, made by a recipe. `is_adopted` tells whether an earlier agent started it."""

    def __init__(
        self, desired: Desired, recipe: Recipe, *, folder: Path, launcher: Launcher, http: aiohttp.ClientSession
    ) -> None:
        self._desired = desired
        self._recipe = recipe
        self._http = http
        self._process = EngineProcess(folder, launcher)
        self._is_broken = False
        self.is_adopted = False
        self.facts: Mapping[str, Any] = {}

    async def start(self) -> Target:
        """Adopt what runs and fits, else start anew; wait until it lists its models. Raises EngineError."""
        note = Note.read(self._process.folder)
        if note is not None and note.is_live and self._fits(note):
            return await self._adopted(note)
        if note is not None:
            self._process.adopt(note)
            await self._process.stop()
        prepared = await self._recipe.prepare()
        self.facts = prepared.facts
        await self._process.start(prepared.command, ordered=self._order(prepared))
        return await self._up(_target(prepared, self._desired), prepared.deadline_s)

    async def wait_for_end(self) -> str:
        """Wait for the process; return the code that its log gives."""
        await self._process.wait()
        return self._recipe.classify(self._process.tail(), fallback=EngineError("engine_died")).code

    def explain(self) -> str:
        """The exit status, and the line of the log that names a known cause; no other line, which may hold anything."""
        status = f"exit status {self._process.exit_status}"
        found = self._recipe.classify(self._process.tail(), fallback=EngineError("engine_died"))
        return f"{status}; {found.detail}" if found.code != "engine_died" else status

    async def stop(self) -> None:
        """Let it finish what runs, unless `break_off` was called; see all of it gone. Raises EngineError."""
        await self._process.stop(at_once=self._is_broken)
        await self._recipe.release()

    def break_off(self) -> None:
        """Nothing that it would finish is of use: `stop` does not wait for it."""
        self._is_broken = True

    def let_go(self) -> None:
        """Leave it running for the next agent."""
        self._process.let_go()

    async def _adopted(self, note: Note) -> Target:
        ordered = note.ordered
        self.is_adopted, self.facts = True, ordered["facts"]
        self._recipe.adopt(self.facts)
        self._process.adopt(note)
        log.info("engine.adopted", extra={"deployment": self._desired.deployment, "pid": note.pid})
        target = Target(
            base_url=f"http://127.0.0.1:{int(ordered['port'])}",
            served_name=str(ordered["served_name"]),
            max_concurrency=self._desired.max_concurrency,
            headers={str(name): str(value) for name, value in ordered["headers"].items()},
        )
        return await self._up(target, _ADOPTED_DEADLINE_S)

    async def _up(self, target: Target, deadline_s: float) -> Target:
        try:
            await wait_until_listed(self._http, target, self._process, deadline_s=deadline_s)
        except EngineError as error:
            if self._process.exit_status is None:
                raise
            found = self._recipe.classify(self._process.tail(), fallback=error)
            # The log of one that has served may hold anything: only a known cause is taken from it.
            raise (error if self.is_adopted and found.code == error.code else found) from None
        return target

    def _fits(self, note: Note) -> bool:
        wanted = _plain({"desired": asdict(self._desired), "settings": dict(self._recipe.settings())})
        return all(note.ordered.get(name) == value for name, value in wanted.items()) and "port" in note.ordered

    def _order(self, prepared: Prepared) -> dict[str, Any]:
        return {
            "desired": asdict(self._desired), "settings": dict(self._recipe.settings()), "port": prepared.port,
            "served_name": prepared.served_name, "headers": dict(prepared.headers), "facts": dict(prepared.facts),
        }  # fmt: skip


def _target(prepared: Prepared, desired: Desired) -> Target:
    return Target(
        base_url=f"http://127.0.0.1:{prepared.port}",
        served_name=prepared.served_name,
        max_concurrency=desired.max_concurrency,
        headers=prepared.headers,
    )


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain
