"""Waits on a condition with a deadline and says in the end what did not come."""

import time
from collections.abc import Callable
from threading import Event

import httpx

_POLL_S = 0.1


class TookTooLong(RuntimeError):
    """A condition did not come true before its deadline."""


def until(what: str, probe: Callable[[], bool], *, timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
    """Return once `probe` is true. `check` may raise to end the wait early. Raises TookTooLong."""
    deadline = time.monotonic() + timeout_s
    while not probe():
        check()
        if time.monotonic() > deadline:
            raise TookTooLong(f"{what}: not after {timeout_s:.0f} s")
        Event().wait(_POLL_S)


def answers(url: str, *, headers: dict[str, str] | None = None) -> bool:
    """Say whether a GET of the URL is answered with 200."""
    try:
        return httpx.get(url, headers=headers, timeout=5.0, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
