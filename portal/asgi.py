"""The portal's ASGI application. Forwarded addresses and schemes count only from TRUSTED_PROXIES."""

import asyncio
import contextvars
import os
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from tempfile import SpooledTemporaryFile
from typing import Any, Final

import django
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from poolhouse_common import garbage
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.production")

_THREADS: Final = 8
# A thread that has heard from the database waits for the interpreter as long as others may keep it, at each query. With
# the usual 5 ms a request of ten queries among eight threads spends most of its time in that line.
_TURN_S: Final = 0.001
_IN_MEMORY: Final = 1 << 20
_PART: Final = 1 << 16


class ThreadedHandler(ASGIHandler):
    """Django's handler with a fixed number of threads, each of which keeps its database connection.

    Bodies are read and answers are written on the loop, so a slow client holds no thread. Django's own way under ASGI
    makes a thread and a connection for each request, and goes back and forth between thread and loop in between.
    """

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="request")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            raise ValueError(f"the portal speaks HTTP only, not {scope['type']}")
        await self.handle(scope, receive, send)

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002  Django's signature
        """Load the whole chain for threads: every view here is synchronous."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in one of the threads, from the first middleware to the last."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, context.run, self._answer, request)

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        close_old_connections()
        try:
            response = self.get_response(request)
            if isinstance(response, StreamingHttpResponse) and not response.is_async:
                _write_whole(response)
            return response
        finally:
            close_old_connections()


def _write_whole(response: StreamingHttpResponse) -> None:
    """Draw what a view streams here, where its database connection is, into a file that the loop sends.

    Left to Django it would be drawn in the one thread that all requests share.
    """
    file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  it is closed with the response
    response._resource_closers.append(file.close)  # type: ignore[attr-defined]  # noqa: SLF001  no public way
    for chunk in response:
        file.write(chunk)
    file.seek(0)
    response.streaming_content = _parts(file)


async def _parts(file: "SpooledTemporaryFile[bytes]") -> AsyncIterator[bytes]:
    while part := file.read(_PART):
        yield part


sys.setswitchinterval(_TURN_S)
django.setup(set_prefix=False)
django_application: Any = ThreadedHandler()

from django.conf import settings  # noqa: E402  settings are readable only from here on
from django.urls import get_resolver  # noqa: E402

_ = get_resolver().url_patterns  # every view is loaded now, and not with the first request
garbage.settle()

application: Any = ProxyHeadersMiddleware(django_application, trusted_hosts=settings.TRUSTED_PROXIES)
