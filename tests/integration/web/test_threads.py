"""The portal answers in a few threads: what one view takes its time for holds up nobody else."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx
import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from portal.asgi import ThreadedHandler

ROWS = 40_000
go_on = threading.Event()
drawn_by: set[str] = set()


def rows() -> Iterator[bytes]:
    """Wait in the middle, as a query may; note who draws."""
    for number in range(ROWS):
        if number == 1:
            go_on.wait(30)
        drawn_by.add(threading.current_thread().name)
        yield b"a row of sixty bytes that would not fit into memory for ever\n"


def export(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(rows(), content_type="text/csv")


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(threading.current_thread().name)


urlpatterns = [path("export", export), path("page", page)]


@pytest.fixture
def client(settings):
    settings.ROOT_URLCONF = __name__
    go_on.clear()
    drawn_by.clear()
    return httpx.AsyncClient(transport=httpx.ASGITransport(ThreadedHandler()), base_url="http://testserver")


async def test_a_long_download_is_whole_and_holds_up_no_page(client):
    async with client:
        download = asyncio.create_task(client.get("/export"))
        while not (drawn_by or download.done()):
            await asyncio.sleep(0.01)

        pages = [(await client.get("/page")).text for _ in range(20)]

        go_on.set()
        answer = await download
    assert {name.partition("_")[0] for name in [*pages, *drawn_by]} == {"request"}
    assert len(drawn_by) == 1
    assert drawn_by.isdisjoint(pages)
    assert answer.text.count("\n") == ROWS


async def test_many_requests_share_eight_threads(client):
    async with client:
        answers = await asyncio.gather(*[client.get("/page") for _ in range(100)])

    assert len({answer.text for answer in answers}) <= 8


def test_the_collector_leaves_what_stays_for_ever_alone():
    """Else it goes through all of Django's objects again and again, and no thread answers meanwhile."""
    started = "import gc, portal.asgi; print(gc.get_freeze_count(), len(gc.get_objects()))"
    told = subprocess.run([sys.executable, "-c", started], capture_output=True, text=True, check=True)

    frozen, left = map(int, told.stdout.split())
    assert frozen > 100_000 > 10 * left
