"""A simulated node's way to the portal: the agent's own client over one shared transport, disturbed and measured."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import httpx

from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import PortalError
from poolhouse_agent.simulate.fleet.conditions import Conditions
from poolhouse_agent.simulate.fleet.figures import Figures

_PREFIX = "/agent/v1/"


class SharedTransport(httpx.AsyncBaseTransport):
    """Some pools of connections for all nodes, used in turn; a client that closes leaves them open.

    A pool looks at each of its connections and waiting requests at each request, so that one for a thousand nodes makes
    the simulator the slower the longer the portal takes.
    """

    def __init__(self, pools: Sequence[httpx.AsyncBaseTransport]) -> None:
        self._turn = itertools.cycle(pools)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it."""
        return await next(self._turn).handle_async_request(request)


class Link(PortalClient):
    """One node's client."""

    def __init__(
        self, server: str, *, transport: httpx.AsyncBaseTransport | None, conditions: Conditions, figures: Figures
    ) -> None:
        super().__init__(server, transport=transport)
        self._conditions = conditions
        self._figures = figures

    async def post(self, path: str, body: Mapping[str, Any], *, bearer: str | None = None) -> Any:
        """Post as the agent does, where the node's luck lets it. Raises PortalError."""
        if self._conditions.weather.is_silent or not self._conditions.has_network:
            self._figures.withheld += 1
            raise PortalError("portal_unreachable", "the simulated network is gone")
        if delay_s := self._conditions.delay_s():
            await asyncio.sleep(delay_s)
        route, loop = path.removeprefix(_PREFIX), asyncio.get_running_loop()
        began = loop.time()
        try:
            answer = await super().post(path, self._by_its_clock(body), bearer=bearer)
        except PortalError as error:
            self._figures.note_failure(route, error.code)
            raise
        weather = self._conditions.weather
        self._figures.note(route, loop.time() - began, elapsed_s=weather.elapsed_s, is_calm=not weather.was_silent)
        return answer

    def _by_its_clock(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        ahead_s = self._conditions.kind.clock_ahead_s
        if not ahead_s or "sent_at" not in body:
            return body
        return {**body, "sent_at": (datetime.fromisoformat(body["sent_at"]) + timedelta(seconds=ahead_s)).isoformat()}
