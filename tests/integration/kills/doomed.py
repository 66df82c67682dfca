"""Work in a forked child that dies by SIGKILL at its n-th step.

A step is a moment before or after something that the outside can see: a commit, a statement of its own outside any
transaction, a request to Stripe. Killing at each in turn, until the work comes to its end, leaves no moment out.
"""

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import httpx
from django.db import connection

from portal.integrations import stripe

_kept: list[object] = []


def lives(work: Callable[[], object], *, dies_at: int) -> bool:
    """Run `work` in a child; tell whether it came to its end before step `dies_at`, counted from 1."""
    connection.ensure_connection()
    child = os.fork()
    if child == 0:
        _run(work, dies_at)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0, "the work raised; its traceback is on standard error"
    return True


def _run(work: Callable[[], object], dies_at: int) -> NoReturn:
    """Work with connections of its own, and leave without any clean-up: the parent's things are the parent's."""
    try:
        _kept.append(connection.connection)  # closing it here would end the parent's session
        connection.connection = None
        stripe.forget_connections()
        steps = Steps(dies_at)
        with connection.execute_wrapper(steps.statement):
            steps.watch_commits()
            steps.watch_requests()
            work()
        os._exit(0)
    finally:
        traceback.print_exc()
        os._exit(1)


class Steps:
    """Counts what the outside can see and kills this process at one of them."""

    def __init__(self, dies_at: int) -> None:
        self._left = dies_at

    def watch_commits(self) -> None:
        """Count the moments around each commit."""
        commit: Callable[[], None] = connection._commit
        connection._commit = lambda: self._around(commit)

    def watch_requests(self) -> None:
        """Count the moments around each request to Stripe."""
        send = httpx.HTTPTransport.handle_request

        def counted(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
            return self._around(lambda: send(transport, request))

        httpx.HTTPTransport.handle_request = counted  # type: ignore[method-assign]  # a process that is about to end

    def statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        """Count the moments around a statement that commits by itself."""
        if connection.in_atomic_block or sql.lstrip()[:6].upper() == "SELECT":
            return execute(sql, params, many, context)
        return self._around(lambda: execute(sql, params, many, context))

    def _around(self, act: Callable[[], Any]) -> Any:
        self._step()
        done = act()
        self._step()
        return done

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
