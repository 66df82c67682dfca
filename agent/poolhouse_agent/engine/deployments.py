"""All deployments of this node: brought in line with what the portal wants and the owner allows."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from poolhouse_agent.bell import Bell
from poolhouse_agent.engine.choose import Workshop
from poolhouse_agent.engine.deployment import Deployment, DeploymentState, Timing
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import RequestRefused
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
        """Start what is new, stop what is gone, replace what has changed."""
        wanted = {one.deployment: one for one in desired if one.desired == _RUNNING}
        for deployment_id, deployment in list(self._by_id.items()):
            if wanted.get(deployment_id) != deployment.desired and deployment_id not in self._ending:
                self._end(deployment_id, deployment)
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

    @property
    def running(self) -> int:
        """Requests in flight."""
        return sum(deployment.target.running for deployment in self._by_id.values() if deployment.target)

    async def end_all(self) -> None:
        """Stop everything."""
        for deployment_id, deployment in list(self._by_id.items()):
            if deployment_id not in self._ending:
                self._end(deployment_id, deployment)
        if self._ending:
            await asyncio.wait(set(self._ending.values()))

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
