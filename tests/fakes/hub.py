"""A place that models are fetched from: ranges, breaks and lies, on a port of its own."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Hub:
    """Serves the files of a folder below `/acme/tiny/resolve/r1/`; change its attributes to change how."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.has_ranges = True
        self.breaks_after: int | None = None
        self.breaks = 0
        self.refuses = 0
        self.redirects_to = ""
        self.asked: list[tuple[str, str, str]] = []
        self.sent_bytes = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer GET and HEAD."""
        span = request.headers.get("range", "")
        self.asked.append((request.command, request.path, span))
        if self.refuses:
            request.send_error(self.refuses)
        elif self.redirects_to:
            request.send_response(302)
            request.send_header("location", self.redirects_to)
            request.end_headers()
        else:
            self._send(request, span)

    def _send(self, request: BaseHTTPRequestHandler, span: str) -> None:
        prefix = "/acme/tiny/resolve/r1/"
        path = self.folder / request.path.removeprefix(prefix)
        if not request.path.startswith(prefix) or not path.is_file():
            request.send_error(404)
            return
        content = path.read_bytes()
        start = int(span.removeprefix("bytes=").removesuffix("-")) if span and self.has_ranges else 0
        if start >= len(content) > 0:
            request.send_error(416)
            return
        request.send_response(206 if start else 200)
        request.send_header("content-length", str(len(content) - start))
        request.end_headers()
        if request.command == "GET":
            self._write(request, content[start:])

    def _write(self, request: BaseHTTPRequestHandler, content: bytes) -> None:
        if self.breaks > 0 and self.breaks_after is not None and len(content) > self.breaks_after:
            self.breaks -= 1
            content = content[: self.breaks_after]
        request.wfile.write(content)
        self.sent_bytes += len(content)
        request.close_connection = True


@contextlib.contextmanager
def running_hub(folder: Path) -> Iterator[Hub]:
    """A hub on a free port of 127.0.0.1."""
    hub = Hub(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.answer(self)

        def do_HEAD(self) -> None:
            hub.answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
