"""Hears the driver's Xid errors: a child waits for them as long as the agent runs.

Xids from before are not in NVML; what they did is: a lost GPU, uncorrected errors, a pending repair.
"""

import asyncio
import json
import logging

from poolhouse_agent.backoff import Backoff
from poolhouse_agent.children import end
from poolhouse_agent.nvml import children

log = logging.getLogger(__name__)

_SILENCE_S = 30.0
_MOST_EACH = 16
_FOR_GOOD = frozenset({"not_supported", "function_not_found", "nvml_library_missing"})


class XidWatch:
    """Runs until cancelled; `heard` is by GPU, `missing` says why nothing could be heard."""

    def __init__(self, *, library: str = "", silence_s: float = _SILENCE_S, first_s: float = 5.0) -> None:
        self._library = library
        self._silence_s = silence_s
        self._backoff = Backoff(first_s=first_s, longest_s=600.0)
        self._heard: dict[str, list[int]] = {}
        self.missing = "not_watched"

    def heard(self) -> dict[str, tuple[int, ...]]:
        """Return the Xid codes since the agent started, by the GPU's UUID, each once, oldest first."""
        return {uuid: tuple(codes) for uuid, codes in self._heard.items()}

    async def run(self) -> None:
        """Listen; begin again where the child ends. Return only where this driver never tells."""
        while True:
            reason = await self._listen()
            self.missing = reason
            if reason in _FOR_GOOD:
                return
            await asyncio.sleep(self._backoff.next_s())

    async def _listen(self) -> str:
        try:
            child = await children.start("xid_child", self._library)
        except OSError:
            return "nvml_crashed"
        try:
            return await self._hear(child)
        finally:
            await end(child)

    async def _hear(self, child: asyncio.subprocess.Process) -> str:
        """Take the child's lines until it ends or falls silent; return why."""
        ended = "nvml_crashed"
        while child.stdout is not None:
            try:
                async with asyncio.timeout(self._silence_s):
                    text = await child.stdout.readline()
            except TimeoutError:
                return "nvml_hung"
            except ValueError:
                return "nvml_crashed"  # a line without end
            if not text:
                break
            ended = self._take(text) or ended
        return ended

    def _take(self, text: bytes) -> str:
        """Take one line; return why the child ends, where it says so."""
        try:
            line = json.loads(text)
        except ValueError:
            return ""
        match line:
            case {"ended": str(reason)}:
                return reason
            case {"watching": str()} | {"tick": True}:
                self.missing = ""
                self._backoff.reset()
            case {"xid": int(code), "uuid": str(uuid)}:
                self._note(uuid, code)
        return ""

    def _note(self, uuid: str, code: int) -> None:
        codes = self._heard.setdefault(uuid, [])
        if code not in codes and len(codes) < _MOST_EACH:
            codes.append(code)
        log.warning("gpu.xid", extra={"gpu": uuid, "xid": code})
