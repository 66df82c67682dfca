"""A customer of the gateway at the level of ASGI: what he sends, what was written to him, when he leaves."""

import asyncio
from typing import Any

from portal.gateway.exchange import Exchange


class Customer:
    """Holds one connection. `leave` closes it; `reads_slowly` makes writes wait."""

    def __init__(self, body: bytes = b"{}", headers: dict[str, str] | None = None) -> None:
        self.written: list[dict[str, Any]] = []
        self._body = [body]
        self._gone = asyncio.Event()
        self.may_read = asyncio.Event()
        self.may_read.set()
        scope = {
            "method": "POST",
            "path": "/v1/chat/completions",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        self.exchange = Exchange(scope, self._receive, self._send)

    @property
    def text(self) -> str:
        """Return the body as it was written."""
        return b"".join(m["body"] for m in self.written if m["type"] == "http.response.body").decode()

    @property
    def status(self) -> int | None:
        """Return the status once it was written."""
        return next((m["status"] for m in self.written if m["type"] == "http.response.start"), None)

    @property
    def has_whole_answer(self) -> bool:
        """Whether the last piece of the body was written."""
        return bool(self.written) and self.written[-1].get("more_body") is False

    def leave(self) -> None:
        """Close the connection."""
        self._gone.set()

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        await self.may_read.wait()
        if self._gone.is_set():
            raise OSError("the connection is closed")
        self.written.append(message)
