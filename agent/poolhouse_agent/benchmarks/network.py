"""How fast the way to the pool is, both ways and for small things."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from statistics import median

from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.checks.result import Result, Status, measured, trouble
from poolhouse_agent.errors import PortalError

_BLOCK = 512_000  # of characters that carry one byte each on the wire
_TRIPS = 10

Exchange = Callable[[str, int], Awaitable[int]]


def step(exchange: Exchange, *, size: int) -> Step:
    """Exchange blocks with the portal: `exchange` sends a text, asks for so many characters and returns their count."""

    async def work(say: Say) -> list[Result]:
        try:
            return await _measure(exchange, size, say)
        except PortalError as error:
            return [trouble("network.round_trip", Status.FAIL, error.code, error.detail)]

    return Step("network.round_trip", "network to the pool", 10, work)


async def _measure(exchange: Exchange, size: int, say: Say) -> list[Result]:
    await exchange("", 0)  # opens the connection
    trips = [await _seconds(exchange, "", 0) for _ in range(_TRIPS)]
    say(0.2)
    trip_s, blocks = median(trips), max(1, size // _BLOCK)
    sent = secrets.token_hex(_BLOCK // 2)
    up = down = 0.0
    for number in range(blocks):
        up += await _seconds(exchange, sent, 0)
        down += await _seconds(exchange, "", _BLOCK)
        say(0.2 + 0.8 * (number + 1) / blocks)
    return [
        measured("network.round_trip", 1000 * trip_s, evidence={"trips_ms": [round(1000 * trip, 2) for trip in trips]}),
        measured("network.upload", _megabits(blocks, up, trip_s), evidence={"bytes": blocks * _BLOCK}),
        measured("network.download", _megabits(blocks, down, trip_s), evidence={"bytes": blocks * _BLOCK}),
    ]


async def _seconds(exchange: Exchange, text: str, wanted: int) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    got = await exchange(text, wanted)
    if got < wanted:
        raise PortalError("portal_error", f"{wanted} characters were asked for, {got} came")
    return loop.time() - began


def _megabits(blocks: int, seconds: float, trip_s: float) -> float:
    """Throughput without the round trips, which the other figure shows."""
    return blocks * _BLOCK * 8 / 1e6 / max(seconds - blocks * trip_s, 1e-4)
