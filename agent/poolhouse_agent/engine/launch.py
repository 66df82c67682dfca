"""Runs as a script between the agent and an engine: ties the engine to the agent's life, then becomes it.

`launch.py PARENT_PID PROGRAM ARGUMENT…`; uses the standard library alone, because it runs without site-packages.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PARENT_GONE = 70


def main() -> None:
    """Ask the kernel for SIGTERM when the agent dies, then replace this process by the program."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(_PARENT_GONE)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  a fixed program with arguments from the agent's own list


if __name__ == "__main__":
    main()
