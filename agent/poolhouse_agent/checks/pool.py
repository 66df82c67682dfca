"""Checks of the way to the pool."""

from datetime import UTC, datetime

from poolhouse_agent import identity
from poolhouse_agent.checks.result import Result, Status, Surroundings, ok, skipped, trouble
from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import AgentError
from poolhouse_agent.protocol import messages

_MAX_SKEW_S = 60


async def membership(around: Surroundings) -> list[Result]:
    """Whether this machine has joined, and its key."""
    found = around.state.membership()
    if found is None:
        return [skipped("membership", "this machine has not joined a pool")]
    try:
        key = identity.load(around.state.key_file)
    except AgentError as error:
        return [trouble("membership", Status.FAIL, error.code, error.detail)]
    return [ok("membership", f"{found.node} of {found.server}", public_key=key.public_key, simulate=found.simulate)]


async def portal(around: Surroundings) -> list[Result]:
    """Whether the pool answers, and how far the clocks are apart."""
    found = around.state.membership()
    if found is None and around.server:
        return [await _stranger(around.server)]
    if found is None:
        return [skipped("portal", "this machine has not joined a pool; `--server URL` tries one")]
    try:
        async with PortalClient(found.server) as client:
            answer = await client.post("/agent/v1/session/challenge", {"node": found.node})
        server_time = messages.read_challenge(answer).server_time
    except AgentError as error:
        return [trouble("portal", Status.FAIL, error.code, error.detail)]
    skew_s = (datetime.now(UTC) - server_time).total_seconds() if server_time else 0.0
    if abs(skew_s) > _MAX_SKEW_S:
        return [trouble("portal", Status.WARN, "clock_skew", f"the clock is off by {skew_s:.0f} s", skew_s=skew_s)]
    return [ok("portal", f"{found.server} answers", skew_s=round(skew_s, 1))]


async def _stranger(server: str) -> Result:
    """Whether a pool answers there: it says that it knows no such node."""
    try:
        async with PortalClient(server) as client:
            await client.post("/agent/v1/session/challenge", {"node": "node_of_nobody"})
    except AgentError as error:
        if error.code != "node_unknown":
            return trouble("portal", Status.FAIL, error.code, error.detail)
    return ok("portal", f"{server} answers; this machine has not joined it")
