"""Keeps other processes of the same user, such as an engine that was taken over, out of the agent's memory."""

import ctypes
from collections.abc import Mapping

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def within_service(environ: Mapping[str, str]) -> None:
    """Where systemd runs this process, let nobody but root trace it or read its memory."""
    if "NOTIFY_SOCKET" in environ:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def is_traceable() -> bool:
    """Whether other processes of this user may trace this one."""
    return bool(ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE))
