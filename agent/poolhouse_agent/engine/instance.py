"""One running engine of a deployment: started or adopted, proven, watched, stopped."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolhouse_agent.engine import choose, metrics, readiness, versions
from poolhouse_agent.engine.base import Engine
from poolhouse_agent.engine.metrics import Load
from poolhouse_agent.engine.own import OwnEngine
from poolhouse_agent.engine.readiness import Proof
from poolhouse_agent.engine.stillness import Stillness
from poolhouse_agent.engine.target import Target
from poolhouse_agent.engine.timing import Timing
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

log = logging.getLogger(__name__)

_PROBE_MISSES = 2
_TOLD = ("engine_version", "gpu_uuids", "kv_cache_tokens")


@dataclass(slots=True)
class Instance:
    """An engine and what is known of it; `place` tells two engines of one deployment apart."""

    desired: Desired
    workshop: Workshop
    timing: Timing
    place: str = ""
    eased: int = 0
    target: Target | None = None
    load: Load = field(default_factory=lambda: Load.unknown(0))
    facts: dict[str, Any] = field(default_factory=dict)
    _engine: Engine | None = None
    _ended: asyncio.Future[str] | None = None
    _probed: Proof = field(default_factory=lambda: Proof(0, 0))

    @property
    def folder(self) -> Path:
        """Where its log and note lie."""
        return self.workshop.engines / choose.place_name(self.desired, self.place)

    @property
    def counters(self) -> dict[str, int]:
        """The engine's counters without the agent's own probes."""
        own = {
            "prompt_tokens_total": self._probed.prompt_tokens,
            "generation_tokens_total": self._probed.completion_tokens,
        }
        return {name: max(0, count - own.get(name, 0)) for name, count in self.load.counters.items()}

    def note_probe(self, proof: Proof) -> None:
        """Take requests of the agent's own off the counters."""
        self._probed += proof

    async def bring_up(self) -> Target:
        """Start or adopt it, and prove that it serves. Raises EngineError."""
        self._engine = choose.engine_for(self.desired, self.workshop, place=self.place, eased=self.eased)
        target = await self._engine.start()
        self._ended = asyncio.ensure_future(self._engine.wait_for_end())
        await self._unless_it_ends(self._prove(target))
        self.target = target
        return target

    async def watch(self) -> None:
        """Look after it until something is wrong. Raises EngineError when it ended, is stuck or does not answer."""
        if self.target is not None:
            await self._unless_it_ends(self._look(self.target))

    async def stop(self, *, at_once: bool = False) -> None:
        """End it and all it started, at once where it is broken. Raises EngineError `needs_reboot`."""
        self.target = None
        engine, self._engine = self._engine, None
        if self._ended is not None:
            self._ended.cancel()
        if at_once and isinstance(engine, OwnEngine):
            engine.break_off()
        if engine is not None:
            await asyncio.shield(engine.stop())

    def let_go(self) -> None:
        """Watch it no more, and leave it running where it can be adopted."""
        self.target = None
        if self._ended is not None:
            self._ended.cancel()
        if isinstance(self._engine, OwnEngine):
            self._engine.let_go()
        self._engine = None

    async def drained(self) -> None:
        """Wait until no request runs, at most as long as a drain may take."""
        if self.target is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.timing.drain_s):
                    await self.target.idle()

    async def _unless_it_ends(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        ended = self._ended
        try:
            await asyncio.wait({task} | ({ended} if ended is not None else set()), return_when=asyncio.FIRST_COMPLETED)
            if ended is not None and ended.done() and self._engine is not None:
                raise EngineError(ended.result(), self._engine.explain())
            await task
        finally:
            task.cancel()

    async def _prove(self, target: Target) -> None:
        http = self.workshop.http
        self._probed += await readiness.prove(http, target, desired=self.desired)
        known: Mapping[str, Any] = self._engine.facts if isinstance(self._engine, OwnEngine) else {}
        found = {**known, **await metrics.about(http, target)}
        self.facts = {name: found[name] for name in _TOLD if found.get(name)}
        version = str(self.facts.get("engine_version", ""))
        if self.desired.engine == "vllm" and version and versions.is_below_floor(version):
            raise EngineError("engine_version_unsupported", f"vLLM {version}")

    async def _look(self, target: Target) -> None:
        loop = asyncio.get_running_loop()
        probed_at = loop.time()
        stillness = Stillness(2 * self.timing.poll_s)
        misses = 0
        while True:
            await asyncio.sleep(self.timing.poll_s)
            self.load = await metrics.read(self.workshop.http, target)
            still_s = stillness.note(self.load, at=loop.time())
            if still_s > self.timing.stuck_after_s and self.load.counters:
                raise EngineError("engine_stuck", f"{self.load.running} requests run, no token for a minute")
            is_idle = target.running == 0 and self.load.running == 0
            if is_idle and loop.time() - probed_at > self.timing.probe_every_s:
                probed_at = loop.time()
                misses = 0 if await self._probe(target) else misses + 1
                if misses >= _PROBE_MISSES:
                    raise EngineError("engine_stuck", f"{misses} test requests without an answer")

    async def _probe(self, target: Target) -> bool:
        try:
            proof = await readiness.generate(self.workshop.http, target, timeout_s=self.timing.probe_timeout_s)
        except EngineError as error:
            log.warning("engine.probe_missed", extra={"deployment": self.desired.deployment, "code": error.code})
            return False
        self._probed += proof
        return True
