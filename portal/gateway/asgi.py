"""`portal.gateway.asgi:application`: `/v1` and the tunnel, for uvicorn with `--ws websockets-sansio`."""

import os
from collections.abc import Callable, Coroutine
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.gateway")
django.setup()

from poolhouse_common import garbage  # noqa: E402

from portal.gateway import config, routes  # noqa: E402  models need Django's registry
from portal.gateway.process import GatewayProcess  # noqa: E402

TUNNEL_PATH = "/agent/v1/tunnel"

Scope = dict[str, Any]
Receive = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
Send = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]


class Application:
    """The ASGI door of one process; the process itself lives from lifespan start-up to shutdown."""

    def __init__(self) -> None:
        self.process: GatewayProcess | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection or the lifespan."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self.process is None:
            raise RuntimeError("the gateway serves after its lifespan has started: run uvicorn with lifespan=on")
        elif scope["type"] == "http":
            await routes.serve(self.process, scope, receive, send)
        elif scope["path"] == TUNNEL_PATH:
            await self.process.tunnel_server.serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def drain(self) -> None:
        """Let running requests end; nothing new is admitted."""
        if self.process is not None:
            await self.process.drain()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        process = GatewayProcess(config.from_environment())
        await process.start()
        garbage.settle()
        self.process = process
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await process.stop()
        await send({"type": "lifespan.shutdown.complete"})


application = Application()
