"""The exchange that the network benchmark measures: blocks of text with the portal, within a session."""

from poolhouse_agent.benchmarks.network import Exchange
from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import PortalError
from poolhouse_agent.session import SessionKeeper


def with_portal(client: PortalClient, sessions: SessionKeeper) -> Exchange:
    """Return an exchange over the client's connections."""

    async def exchange(text: str, wanted: int) -> int:
        session = await sessions.ensure()
        body = {"padding": text, "answer_characters": wanted}
        answer = await client.post("/agent/v1/checks/echo", body, bearer=session.token)
        padding = answer.get("padding") if isinstance(answer, dict) else None
        if not isinstance(padding, str):
            raise PortalError("portal_error", "the echo has no padding")
        return len(padding)

    return exchange
