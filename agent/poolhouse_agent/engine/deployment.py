"""One deployment from the wish for it to its end: start, prove, watch, start again, change, stop."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from poolhouse_agent.backoff import Backoff
from poolhouse_agent.bell import Bell
from poolhouse_agent.engine import provision, room
from poolhouse_agent.engine.instance import Instance
from poolhouse_agent.engine.measurable import Measurable
from poolhouse_agent.engine.target import Target
from poolhouse_agent.engine.timing import Timing
from poolhouse_agent.engine.vllm import MOST_EASED
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import DeploymentReport, Desired

__all__ = ["Deployment", "DeploymentState", "Timing"]

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


_HOUR_S = 3600.0
_PLACES = {"": "b", "b": ""}
_ROLLED_BACK = "engine_change_rolled_back"
_SUSPECT_AFTER = 2
# What another start will not cure: wait for the owner or the portal to change something.
_LASTING = frozenset({
    "engine_argument_refused", "simulated_engine_refused", "external_engine_unset", "config_invalid", "engine_missing",
    "weights_missing", "weights_mismatch", "weights_damaged", "weights_unsafe", "quantization_unsupported",
    "context_does_not_fit", "tensor_parallel_invalid",
    "engine_version_unsupported", "engine_version_missing", "architecture_unsupported", "driver_mismatch",
    "compute_capability_too_low", "needs_reboot", "mig_enabled", "gpu_suspect", "gpu_not_listed", "disk_full",
    "download_refused", "download_disabled", "container_image_missing",
})  # fmt: skip
# What time or another's hand cures, and no engine died of: tried again for ever.
_PATIENT = frozenset({
    "download_failed", "download_quota_reached", "engine_install_failed", "gpu_taken", "gpu_in_use",
})  # fmt: skip


@dataclass(slots=True)
class Deployment:
    """Runs one deployment in a task of its own; `desired` is the wish, which may be ahead of what runs."""

    desired: Desired
    workshop: Workshop
    bell: Bell
    timing: Timing = field(default_factory=Timing)
    place: str = ""
    state: DeploymentState = DeploymentState.PENDING
    code: str = ""
    detail: str = ""
    _current: Instance | None = None
    _retiring: dict[asyncio.Task[None], Instance] = field(default_factory=dict)
    _candidate: Instance | None = None
    _task: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _refused_version: str = ""
    _version: str = ""
    _eased: int = 0
    _restarts: list[float] = field(default_factory=list)
    _suspicions: list[float] = field(default_factory=list)
    _progress: dict[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> Target | None:
        """Where requests go, if anywhere."""
        return self._current.target if self._current is not None else None

    @property
    def running(self) -> int:
        """Requests in flight, those of an engine that is being replaced among them."""
        targets = [self.target, *(instance.target for instance in self._retiring.values())]
        return sum(target.running for target in targets if target is not None)

    @property
    def measurable(self) -> Measurable | None:
        """What a benchmark asks, once the model is up."""
        current = self._current
        if current is None or current.target is None or self.state is not DeploymentState.READY:
            return None
        return Measurable(current.target, self.desired.context_tokens, current.note_probe)

    def begin(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._ran_out)

    def change(self, desired: Desired) -> None:
        """Take a new wish; what runs goes on until the new engine is ready, where there is room for both."""
        self.desired = desired
        self._changed.set()

    async def end(self) -> None:
        """Take no new requests, let the running ones end, stop everything. Raises EngineError `needs_reboot`."""
        self._move(DeploymentState.DRAINING)
        if self._current is not None:
            await self._current.drained()
        await self._halt()
        await self._stop_all()
        self._move(DeploymentState.STOPPED)

    async def let_go(self) -> None:
        """Let running requests end, and leave the engine to the next agent."""
        if self._current is not None:
            await self._current.drained()
        await self._halt()
        if self._current is not None:
            self._current.let_go()
            self._current = None
        await self._stop_all()

    def report(self) -> DeploymentReport:
        """What to tell gateway and portal."""
        current = self._current
        return DeploymentReport(
            deployment=self.desired.deployment,
            model=self.desired.model,
            state=self.state.value,
            code=self.code,
            detail=self.detail,
            running=self.running,
            waiting=current.load.waiting if current is not None else 0,
            max_concurrency=self.desired.max_concurrency,
            counters=current.counters if current is not None else {},
            facts={**(current.facts if current is not None else {}), **self._progress},
        )

    async def _run(self) -> None:
        is_ours = self.desired.engine != "external"  # another's server is nothing to start, only to look for again
        longest_s = self.timing.restart_longest_s if is_ours else self.timing.look_again_s
        backoff = Backoff(first_s=min(self.timing.restart_first_s, longest_s), longest_s=longest_s)
        while True:
            delay_s: float | None = 0.0
            try:
                await self._serve(backoff)
            except EngineError as error:
                code = await self._failed(error)
                is_over = code in _LASTING or (code not in _PATIENT and self._is_looping())
                delay_s = None if is_over else backoff.next_s()
            if await self._pause(delay_s):
                backoff.reset()

    async def _serve(self, backoff: Backoff) -> None:
        """Bring the engine up, watch it and change it as wished. Raises EngineError when something is wrong.

        Returns where the wish changed before the engine was up: then another start is due.
        """
        self._changed.clear()
        self._move(DeploymentState.STARTING)
        wanted = self._effective()
        if not await self._unless_changed(self._start(wanted)) or self._current is None:
            await self._stop_all()
            return
        self._version = wanted.engine_version
        backoff.reset()
        self._move(DeploymentState.READY, *self._standing_note())
        while True:
            await self._unless_changed(self._current.watch())
            self._changed.clear()
            if self._effective() != self._current.desired:
                await self._switch(self._current, self._effective())

    async def _start(self, wanted: Desired) -> None:
        await self._provide(wanted)
        self._current = self._instance(wanted, self.place)
        await self._current.bring_up()

    async def _unless_changed(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work; where the wish changes first, break it off and return False. Raises what the work raises."""
        task, changed = asyncio.create_task(work), asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({task, changed}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            changed.cancel()
            task.cancel()
            await asyncio.wait({task})

    async def _switch(self, old: Instance, wanted: Desired) -> None:
        """Replace the engine, without a gap where both fit; a version that fails gives way to the one that worked."""
        is_upgrade = replace(wanted, engine_version=old.desired.engine_version) == old.desired
        try:
            await self._provide(wanted)
            if await room.has_room_beside(wanted, self.workshop, old):
                await self._switch_beside(old, wanted)
            else:
                await self._switch_in_turn(old, wanted)
        except EngineError as error:
            if not is_upgrade:
                raise
            await self._roll_back(old, wanted, error)

    async def _switch_beside(self, old: Instance, wanted: Desired) -> None:
        """The new engine is ready before the old one goes. Raises EngineError."""
        candidate = self._candidate = self._instance(wanted, _PLACES[old.place])
        watch, start = asyncio.create_task(old.watch()), asyncio.create_task(candidate.bring_up())
        try:
            await asyncio.wait({watch, start}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and not start.done():
                await self._failed_beside(old)
            await start
        finally:
            watch.cancel()
            start.cancel()
        self._take_over(candidate, wanted)
        self._retire(old)

    async def _failed_beside(self, old: Instance) -> None:
        """The old engine died while the new one starts: nothing is routed until that is ready."""
        self._move(DeploymentState.STARTING)
        await old.stop(at_once=True)

    async def _switch_in_turn(self, old: Instance, wanted: Desired) -> None:
        """Unroute, wait, stop, start: there is memory for one only. Raises EngineError."""
        self._move(DeploymentState.DRAINING)
        await old.drained()
        await old.stop()
        self._move(DeploymentState.STARTING)
        candidate = self._candidate = self._instance(wanted, old.place)
        await candidate.bring_up()
        self._take_over(candidate, wanted)

    def _take_over(self, candidate: Instance, wanted: Desired) -> None:
        self._current, self._candidate = candidate, None
        self.place, self._version, self._eased = candidate.place, wanted.engine_version, candidate.eased
        self._move(DeploymentState.READY, *self._standing_note())

    async def _roll_back(self, old: Instance, wanted: Desired, error: EngineError) -> None:
        """Serve with the version that worked, and try the other one no more. Raises EngineError."""
        candidate, self._candidate = self._candidate, None
        if candidate is not None:
            await candidate.stop(at_once=True)
        self._refused_version = wanted.engine_version
        note = (_ROLLED_BACK, f"vLLM {wanted.engine_version}: {error.code} {error.detail}"[:300])
        log.warning("deployment.rolled_back", extra={"deployment": self.desired.deployment, "code": error.code})
        if old.target is None:
            self._current = back = self._instance(old.desired, old.place)
            await back.bring_up()
        self._move(DeploymentState.READY, *note)

    def _retire(self, old: Instance) -> None:
        task = asyncio.create_task(self._end_of(old))
        self._retiring[task] = old
        task.add_done_callback(self._retired)

    async def _end_of(self, old: Instance) -> None:
        await old.drained()
        await old.stop()

    def _retired(self, task: asyncio.Task[None]) -> None:
        self._retiring.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("engine.retire_failed", exc_info=error)
        self.bell.ring()

    async def _provide(self, wanted: Desired) -> None:
        """Have weights and program here; what is loaded meanwhile shows in the report. Raises EngineError."""
        try:
            await provision.provide(wanted, self.workshop, tell=self._tell)
        finally:
            self._progress = {}

    def _tell(self, progress: provision.Progress) -> None:
        self._progress = progress.facts()
        self.detail = progress.text()
        self.bell.ring()

    def _effective(self) -> Desired:
        """The wish, with the version that worked in place of one that did not."""
        is_refused = self._refused_version and self.desired.engine_version == self._refused_version
        return replace(self.desired, engine_version=self._version) if is_refused else self.desired

    def _standing_note(self) -> tuple[str, str]:
        """What stays true of a ready engine that is not quite as wished."""
        if self._refused_version and self.desired.engine_version == self._refused_version:
            return _ROLLED_BACK, f"vLLM {self._refused_version} did not become ready"
        return ("engine_eased", f"step {self._eased} of {MOST_EASED}") if self._eased else ("", "")

    def _instance(self, desired: Desired, place: str) -> Instance:
        return Instance(desired, self.workshop, self.timing, place=place, eased=self._eased)

    async def _failed(self, error: EngineError) -> str:
        """Note what failed and end what is left of it; return the code it comes to."""
        is_at_start = self.state is DeploymentState.STARTING
        code = self._suspected(error.code)
        if code == "out_of_gpu_memory" and is_at_start and self._eased < MOST_EASED:
            self._eased += 1
        self._move(DeploymentState.STUCK if code == "engine_stuck" else DeploymentState.FAILED, code, error.detail)
        try:
            await self._stop_all(at_once=True)
        except EngineError as worse:
            self._move(DeploymentState.FAILED, worse.code, worse.detail)
            return worse.code
        return code

    def _suspected(self, code: str) -> str:
        """A GPU that fails twice within an hour is not trusted with a third start."""
        if code != "cuda_error":
            return code
        now = asyncio.get_running_loop().time()
        self._suspicions = [at for at in self._suspicions if now - at < _HOUR_S] + [now]
        return "gpu_suspect" if len(self._suspicions) >= _SUSPECT_AFTER else code

    def _is_looping(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._restarts = [at for at in self._restarts if now - at < _HOUR_S] + [now]
        if len(self._restarts) <= self.timing.restarts_an_hour or self.desired.engine == "external":
            return False
        self._move(DeploymentState.FAILED, "engine_crash_loop", f"last: {self.code} {self.detail}")
        return True

    async def _pause(self, delay_s: float | None) -> bool:
        """Wait, without an end where None; return whether a new wish came meanwhile."""
        try:
            async with asyncio.timeout(delay_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._restarts, self._suspicions, self._eased = [], [], 0
        return True

    def _ran_out(self, task: asyncio.Task[None]) -> None:
        """The task ends by cancellation alone; anything else is a fault of the agent, which must be seen."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("deployment.task_crashed", exc_info=error)
            self._move(DeploymentState.FAILED, "agent_fault", f"{type(error).__name__}")

    async def _halt(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _stop_all(self, *, at_once: bool = False) -> None:
        """Stop every engine of this deployment, a broken one at once. Raises EngineError `needs_reboot`."""
        if self._retiring:
            await asyncio.wait(set(self._retiring))
        current, candidate = self._current, self._candidate
        self._current = self._candidate = None
        for instance in (candidate, current):
            if instance is not None:
                await instance.stop(at_once=at_once)

    def _move(self, state: DeploymentState, code: str = "", detail: str = "") -> None:
        self.state, self.code, self.detail = state, code, detail
        level = logging.WARNING if code else logging.INFO
        log.log(
            level,
            f"deployment.{state.value}",  # noqa: G004  an event's name from a fixed set
            extra={"deployment": self.desired.deployment, "model": self.desired.model, "code": code, "detail": detail},
        )
        self.bell.ring()
