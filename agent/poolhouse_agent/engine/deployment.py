"""One deployment from the wish for it to its end: start, prove, watch, start again, stop."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from poolhouse_agent.backoff import Backoff
from poolhouse_agent.bell import Bell
from poolhouse_agent.engine import choose, metrics, readiness
from poolhouse_agent.engine.base import Engine
from poolhouse_agent.engine.choose import Workshop
from poolhouse_agent.engine.metrics import Load
from poolhouse_agent.engine.readiness import Proof
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import DeploymentReport, Desired

log = logging.getLogger(__name__)


class DeploymentState(StrEnum):
    """Where a deployment stands; the same names as in the portal."""

    PENDING = "pending"
    STARTING = "starting"
    READY = "ready"
    STUCK = "stuck"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient the agent is."""

    poll_s: float = 5.0
    probe_every_s: float = 60.0
    probe_timeout_s: float = 20.0
    stuck_after_s: float = 60.0
    drain_s: float = 60.0
    restart_first_s: float = 5.0
    restart_longest_s: float = 600.0
    look_again_s: float = 15.0
    restarts_an_hour: int = 5


_HOUR_S = 3600.0
_PROBE_MISSES = 2
# What another start will not cure: wait for the owner or the portal to change something.
_LASTING = frozenset({
    "engine_argument_refused", "simulated_engine_refused", "external_engine_unset", "config_invalid", "engine_missing",
    "weights_missing", "weights_mismatch", "weights_unsafe", "context_does_not_fit", "tensor_parallel_invalid",
    "engine_version_unsupported", "driver_mismatch", "needs_reboot", "mig_enabled",
})  # fmt: skip


@dataclass(slots=True)
class Deployment:
    """Runs one deployment in a task of its own."""

    desired: Desired
    workshop: Workshop
    bell: Bell
    timing: Timing = field(default_factory=Timing)
    state: DeploymentState = DeploymentState.PENDING
    code: str = ""
    detail: str = ""
    target: Target | None = None
    _load: Load = field(default_factory=lambda: Load.unknown(0))
    _probed: Proof = field(default_factory=lambda: Proof(0, 0))
    _task: asyncio.Task[None] | None = None
    _engine: Engine | None = None
    _restarts: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Take no new requests, let the running ones end, stop the engine."""
        self._move(DeploymentState.DRAINING)
        await self._drained()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._stop_engine()
        self._move(DeploymentState.STOPPED)

    def report(self) -> DeploymentReport:
        """What to tell gateway and portal. The agent's own probes are taken off the counters."""
        counters = dict(self._load.counters)
        for name, own in (
            ("prompt_tokens_total", self._probed.prompt_tokens),
            ("generation_tokens_total", self._probed.completion_tokens),
        ):
            if name in counters:
                counters[name] = max(0, counters[name] - own)
        return DeploymentReport(
            deployment=self.desired.deployment,
            model=self.desired.model,
            state=self.state.value,
            code=self.code,
            detail=self.detail,
            running=self.target.running if self.target is not None else 0,
            waiting=self._load.waiting,
            max_concurrency=self.desired.max_concurrency,
            counters=counters,
        )

    async def _run(self) -> None:
        is_ours = self.desired.engine != "external"  # another's server costs nothing to look for again
        longest_s = self.timing.restart_longest_s if is_ours else self.timing.look_again_s
        backoff = Backoff(first_s=min(self.timing.restart_first_s, longest_s), longest_s=longest_s)
        while True:
            try:
                await self._serve_once(backoff)
            except EngineError as error:
                await self._failed(error)
                if error.code in _LASTING or self._is_looping():
                    return
            await asyncio.sleep(backoff.next_s())

    async def _serve_once(self, backoff: Backoff) -> None:
        """Start, prove and watch until something is wrong. Raises EngineError."""
        self._move(DeploymentState.STARTING)
        self._load, self._probed = Load.unknown(0), Proof(0, 0)
        self._engine = choose.engine_for(self.desired, self.workshop)
        target = await self._engine.start()
        ended = asyncio.ensure_future(self._engine.wait_for_end())
        try:
            await self._or_end(ended, self._prove(target))
            backoff.reset()
            self.target = target
            self._move(DeploymentState.READY)
            await self._or_end(ended, self._watch(target))
        finally:
            ended.cancel()

    async def _or_end(self, ended: asyncio.Future[str], work: Coroutine[Any, Any, None]) -> None:
        """Do the work, unless the engine ends first. Raises EngineError."""
        task = asyncio.create_task(work)
        try:
            waiting: set[asyncio.Future[Any]] = {ended, task}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and self._engine is not None:
                raise EngineError(ended.result(), self._engine.explain())
            await task
        finally:
            task.cancel()

    async def _prove(self, target: Target) -> None:
        self._note_probe(await readiness.prove(self.workshop.http, target, context_tokens=self.desired.context_tokens))

    async def _watch(self, target: Target) -> None:
        """Look after a running engine. Raises EngineError when it is stuck or does not answer."""
        loop = asyncio.get_running_loop()
        moved_at = probed_at = loop.time()
        misses = 0
        while True:
            await asyncio.sleep(self.timing.poll_s)
            before = self._load
            self._load = await metrics.read(self.workshop.http, target)
            if self._load.progress != before.progress or self._load.running == 0:
                moved_at = loop.time()
            if loop.time() - moved_at > self.timing.stuck_after_s and self._load.counters:
                raise EngineError("engine_stuck", f"{self._load.running} requests run, no token for a minute")
            is_idle = target.running == 0 and self._load.running == 0
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
        self._note_probe(proof)
        return True

    def _note_probe(self, proof: Proof) -> None:
        self._probed = Proof(
            self._probed.prompt_tokens + proof.prompt_tokens, self._probed.completion_tokens + proof.completion_tokens
        )

    async def _failed(self, error: EngineError) -> None:
        is_stuck = error.code == "engine_stuck"
        self._move(DeploymentState.STUCK if is_stuck else DeploymentState.FAILED, error.code, error.detail)
        await self._stop_engine()

    def _is_looping(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._restarts = [at for at in self._restarts if now - at < _HOUR_S] + [now]
        if len(self._restarts) <= self.timing.restarts_an_hour or self.desired.engine == "external":
            return False
        self._move(DeploymentState.FAILED, "engine_crash_loop", f"last: {self.code} {self.detail}")
        return True

    async def _stop_engine(self) -> None:
        self.target = None
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.shield(engine.stop())

    async def _drained(self) -> None:
        if self.target is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.timing.drain_s):
                    await self.target.idle()

    def _move(self, state: DeploymentState, code: str = "", detail: str = "") -> None:
        self.state, self.code, self.detail = state, code, detail
        level = logging.WARNING if code else logging.INFO
        log.log(
            level,
            f"deployment.{state.value}",  # noqa: G004  an event's name from a fixed set
            extra={"deployment": self.desired.deployment, "model": self.desired.model, "code": code, "detail": detail},
        )
        self.bell.ring()
