"""A simulated engine within this process: a thousand of them cost no thousand processes."""

import asyncio

from aiohttp import web

from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired
from poolhouse_agent.simulate import behaviours
from poolhouse_agent.simulate.server import Options, Server

_TOKENS_PER_SECOND = 60
_GOODBYE_S = 0.5


class InProcessEngine:
    """Speaks vLLM's API on a port of 127.0.0.1 of its own."""

    def __init__(self, desired: Desired, *, behaviour: str) -> None:
        self._desired = desired
        self._behaviour = behaviours.find(behaviour)
        self._runner: web.AppRunner | None = None

    async def start(self) -> Target:
        """Listen. Raises EngineError."""
        application = Server(_options(self._desired), behaviour=lambda: self._behaviour).application()
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=_GOODBYE_S)
        await runner.setup()
        self._runner = runner
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        except OSError as error:
            raise EngineError("engine_start_failed", str(error)) from None
        port = int(runner.addresses[0][1])
        return Target(
            base_url=f"http://127.0.0.1:{port}",
            served_name=self._desired.model,
            max_concurrency=self._desired.max_concurrency,
        )

    async def wait_for_end(self) -> str:
        """It never ends by itself."""
        await asyncio.get_running_loop().create_future()
        return ""

    def explain(self) -> str:
        """Nothing to tell."""
        return ""

    async def stop(self) -> None:
        """Listen no more."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def _options(desired: Desired) -> Options:
    return Options(
        model=desired.model,
        context_tokens=desired.context_tokens,
        max_num_seqs=desired.max_concurrency,
        tokens_per_second=_whole(desired, "tokens_per_second", _TOKENS_PER_SECOND),
        embedding_dimensions=_whole(desired, "embedding_dimensions", 0),
    )


def _whole(desired: Desired, name: str, default: int) -> int:
    value = desired.settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise EngineError("engine_argument_refused", f"setting {name!r}")
    return int(value)
