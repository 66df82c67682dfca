"""Answers that are none: what broken and hostile engines send in place of a chat answer."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from poolhouse_agent.simulate.behaviours import HONEST, Behaviour, Fault
from poolhouse_agent.simulate.pacing import Broken, never

__all__ = ["HONEST", "Broken", "instead_of_an_answer"]

_BUSY = {"message": "The engine is currently busy and cannot accept new requests.", "type": "Service Unavailable"}
_BROKEN = {"message": "EngineCore encountered an issue.", "type": "InternalServerError"}
_GIANT_BYTES = 1 << 30
_PIECE = b"x" * (1 << 16)


async def instead_of_an_answer(request: web.Request, behaviour: Behaviour) -> web.StreamResponse | None:
    """Answer wrongly and return the response, or return None where the behaviour lets a chat begin."""
    make = _ANSWERS.get(behaviour.fault)
    return await make(request) if make is not None else None


async def _refuse(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {**_BUSY, "param": None, "code": 503}}, status=503)


async def _fail(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {**_BROKEN, "param": None, "code": 500}}, status=500)


async def _unauthorized(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": "Unauthorized"}, status=401)


async def _html(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html><body><script>alert(1)</script></body></html>", content_type="text/html")


async def _redirect(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"location": "http://169.254.169.254/latest/meta-data/"})


async def _garbage(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=bytes(range(256)) * 16, content_type="application/json")


async def _garbage_events(request: web.Request) -> web.StreamResponse:
    response = await _events(request)
    await response.write(b"data: {not json\n\ndata: [1,2]\n\ndata: \xff\xfe\n\nevent: odd\ndata: null\n\n")
    await response.write(b'data: {"choices":[{"index":"zero","delta":5}]}\n\n' * 3)
    await response.write_eof()
    return response


async def _giant_line(request: web.Request) -> web.StreamResponse:
    response = await _events(request)
    await response.write(b'data: {"choices":[{"index":0,"delta":{"content":"')
    for _ in range(_GIANT_BYTES // len(_PIECE)):
        await response.write(_PIECE)
    return response


async def _hang(request: web.Request) -> web.StreamResponse:
    await never()
    return web.Response()


async def _events(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


_ANSWERS: Mapping[Fault, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
    Fault.REFUSES: _refuse,
    Fault.FAILS: _fail,
    Fault.UNAUTHORIZED: _unauthorized,
    Fault.HTML: _html,
    Fault.REDIRECTS: _redirect,
    Fault.GARBAGE: _garbage,
    Fault.GARBAGE_EVENTS: _garbage_events,
    Fault.GIANT_LINE: _giant_line,
    Fault.HANGS: _hang,
}
