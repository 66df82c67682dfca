"""All deployments of this node: brought in line with what the portal wants and the owner allows."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from poolhouse_agent.bell import Bell
from poolhouse_agent.engine import notes
from poolhouse_agent.engine.deployment import Deployment, DeploymentState
from poolhouse_agent.engine.measurable import Measurable
from poolhouse_agent.engine.notes import Note
from poolhouse_agent.engine.process import EngineProcess
from poolhouse_agent.engine.target import Target
from poolhouse_agent.engine.timing import Timing
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import EngineError, PortalError, RequestRefused
from poolhouse_agent.protocol import messages
from poolhouse_agent.protocol.messages import DeploymentReport, Desired

log = logging.getLogger(__name__)

_RUNNING = "running"


class Deployments:
    """Holds the deployments by id; `bell` rings at each change that the gateway should hear of."""

    def __init__(self, workshop: Workshop, *, timing: Timing | None = None) -> None:
        self.bell = Bell()
        self.is_draining = False
        self._workshop = workshop
        self._timing = timing or Timing()
        self._by_id: dict[str, Deployment] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}

    def apply(self, desired: Sequence[Desired]) -> None:
        """Start what is new, stop what is gone, change what is wanted otherwise."""
        wanted = {one.deployment: one for one in desired if one.desired == _RUNNING}
        for deployment_id, deployment in list(self._by_id.items()):
            one = wanted.get(deployment_id)
            if deployment_id in self._ending:
                continue
            if one is None or one.engine != deployment.desired.engine or one.model != deployment.desired.model:
                self._end(deployment_id, deployment)
            elif one != deployment.desired:
                deployment.change(one)
        for deployment_id, one in wanted.items():
            if deployment_id not in self._by_id:
                self._by_id[deployment_id] = Deployment(one, self._workshop, self.bell, self._timing)
                self._by_id[deployment_id].begin()

    def drain(self, *, is_draining: bool) -> None:
        """Take no new requests, or take them again; running ones go on."""
        if self.is_draining != is_draining:
            self.is_draining = is_draining
            self.bell.ring()

    def route(self, model: str) -> Target:
        """Return where requests for the model go. Raises RequestRefused."""
        if self.is_draining:
            raise RequestRefused("draining", "the owner drains this node")
        for deployment in self._by_id.values():
            if deployment.desired.model != model:
                continue
            if deployment.state is DeploymentState.READY and deployment.target is not None:
                return deployment.target
            if deployment.state is DeploymentState.DRAINING:
                raise RequestRefused("draining", "the model is being stopped")
        raise RequestRefused("model_not_running", model[:96])

    def reports(self) -> Sequence[DeploymentReport]:
        """What to tell about each deployment; a draining node's ready ones are draining."""
        return [self._told(deployment.report()) for deployment in self._by_id.values()]

    def measurable(self) -> Sequence[Measurable]:
        """The models that are up, for benchmarks."""
        return [found for one in self._by_id.values() if (found := one.measurable) is not None]

    @property
    def running(self) -> int:
        """Requests in flight."""
        return sum(deployment.running for deployment in self._by_id.values())

    async def restore(self) -> None:
        """Take up the engines that an earlier agent left running, before the portal is asked."""
        for note in sorted(notes.all_notes(self._workshop.engines), key=lambda one: one.started):
            desired = _ordered(note)
            if desired is None or desired.deployment in self._by_id:
                await self._end_stray(note)
                continue
            place = note.folder.name.removeprefix(desired.deployment).removeprefix("-")
            deployment = Deployment(desired, self._workshop, self.bell, self._timing, place=place)
            self._by_id[desired.deployment] = deployment
            deployment.begin()

    async def let_go(self) -> None:
        """Leave every engine to the next agent, once its requests have ended."""
        work = [deployment.let_go() for name, deployment in self._by_id.items() if name not in self._ending]
        for error in await asyncio.gather(*work, *self._ending.values(), return_exceptions=True):
            if isinstance(error, Exception):
                log.error("deployment.let_go_failed", exc_info=error)

    @property
    def keeps_engines(self) -> bool:
        """Whether engines go on when the agent is stopped."""
        return self._workshop.keeps_engines

    def renew_lease(self) -> None:
        """Show the engines' hosts that an agent lives."""
        self._workshop.launcher.renew()

    async def end_all(self) -> None:
        """Stop everything."""
        for deployment_id, deployment in list(self._by_id.items()):
            if deployment_id not in self._ending:
                self._end(deployment_id, deployment)
        if self._ending:
            await asyncio.wait(set(self._ending.values()))

    async def _end_stray(self, note: Note) -> None:
        """End an engine that belongs to nothing: half a change, or of another version's making."""
        stray = EngineProcess(note.folder, self._workshop.launcher)
        stray.adopt(note)
        try:
            await stray.stop()
        except EngineError as error:
            log.error("engine.stray_stays", extra={"code": error.code, "detail": error.detail})  # noqa: TRY400  named

    def _end(self, deployment_id: str, deployment: Deployment) -> None:
        task = asyncio.create_task(deployment.end())
        self._ending[deployment_id] = task
        task.add_done_callback(lambda done: self._ended(deployment_id, done))

    def _ended(self, deployment_id: str, task: asyncio.Task[None]) -> None:
        self._ending.pop(deployment_id, None)
        self._by_id.pop(deployment_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("deployment.end_crashed", exc_info=error)
        self.bell.ring()

    def _told(self, report: DeploymentReport) -> DeploymentReport:
        if self.is_draining and report.state == DeploymentState.READY:
            return replace(report, state=DeploymentState.DRAINING.value)
        return report


def _ordered(note: Note) -> Desired | None:
    """The deployment that a note was written for; None where it cannot be read."""
    try:
        desired = messages.read_desired(note.ordered.get("desired"))
    except PortalError:
        return None
    is_its_folder = note.folder.name in {desired.deployment, f"{desired.deployment}-b"}
    return desired if note.is_live and is_its_folder else None
