"""The transport below stripe-python: one httpx client a process, with time-outs."""

from collections.abc import Mapping
from typing import NoReturn

import httpx
import stripe

_CONNECT_TIMEOUT_S = 5.0


class HttpxTransport(stripe.HTTPClient):
    """Sends the SDK's requests; a lost connection may be tried again, because every write carries a key."""

    name = "httpx"

    def __init__(self, *, timeout_s: float, is_local: bool = False) -> None:
        super().__init__()
        # A proxy of the environment is for the world outside, never for a stand-in on this machine.
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout_s, connect=_CONNECT_TIMEOUT_S), trust_env=not is_local
        )

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: str | bytes | None = None,
        *,
        _usage: list[str] | None = None,
    ) -> tuple[str, int, Mapping[str, str]]:
        """Send one request and return its answer. Raises the SDK's APIConnectionError."""
        try:
            answer = self._client.request(method, url, headers=dict(headers or {}), content=post_data)
        except httpx.HTTPError as error:
            _raise_lost(error)
        return answer.text, answer.status_code, answer.headers

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _raise_lost(error: httpx.HTTPError) -> NoReturn:
    message = f"the connection to Stripe was lost ({type(error).__name__})"
    raise stripe.APIConnectionError(message, should_retry=True) from error  # type: ignore[no-untyped-call]  # the SDK's own gap
