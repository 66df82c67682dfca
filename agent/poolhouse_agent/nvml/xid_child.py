"""Runs as `python -m poolhouse_agent.nvml.xid_child [LIBRARY]`: waits for Xid errors and prints a JSON line for each.

A line comes at least every few seconds, so that whoever reads notices when the driver holds this process.
"""

import ctypes
import json
import sys
from typing import Any

import pynvml

from poolhouse_agent.nvml import child

_WAIT_MS = 5_000


def main(library: str = "") -> None:
    """Print for ever; end with a reason where the driver offers no events."""
    if failure := child.start(library):
        _say(ended=failure[0])
        return
    events, reason = child.ask(pynvml.nvmlEventSetCreate)
    if reason:
        _say(ended=reason)
        return
    watched = _register(events)
    if not watched:
        _say(ended="not_supported")
        return
    while True:
        _wait(events, watched)


def _register(events: Any) -> dict[int | None, str]:
    """Return the GPUs whose Xids will be heard, by the address of their handle."""
    watched: dict[int | None, str] = {}
    count, _ = child.ask(pynvml.nvmlDeviceGetCount)
    for index in range(count or 0):
        gpu, reason = child.ask(lambda at=index: pynvml.nvmlDeviceGetHandleByIndex(at))  # type: ignore[misc]  # a default argument binds the loop's variable
        if reason:
            continue
        uuid, _ = child.ask(lambda of=gpu: pynvml.nvmlDeviceGetUUID(of))  # type: ignore[misc]  # a default argument binds the loop's variable
        _, reason = child.ask(
            lambda of=gpu: pynvml.nvmlDeviceRegisterEvents(of, pynvml.nvmlEventTypeXidCriticalError, events)  # type: ignore[misc]  # a default argument binds the loop's variable
        )
        if uuid and not reason:
            watched[_address(gpu)] = uuid
            _say(watching=uuid)
    return watched


def _wait(events: Any, watched: dict[int | None, str]) -> None:
    event, reason = child.ask(lambda: pynvml.nvmlEventSetWait_v2(events, _WAIT_MS))
    if reason == "timeout":
        _say(tick=True)
    elif reason:
        _say(ended=reason)
        sys.exit(0)
    else:
        _say(xid=int(event.eventData), uuid=watched.get(_address(event.device), ""))


def _address(gpu: Any) -> int | None:
    return ctypes.cast(gpu, ctypes.c_void_p).value


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:2])
