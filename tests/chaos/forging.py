"""Run as a program: imports all of the gateway once and forks it on request.

Each child is what `python -m portal.gateway` is, with its own environment, log and port. The program reads lines of
JSON, `{"environ": {…}, "log": "…"}`, and answers each with the child's process id.
"""

import json
import os
import signal
import sys

from portal.sandbox import processes


def _be_gateway(order: dict, parent: int) -> None:
    processes.die_with(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((0, nothing), (1, log), (2, log)):
        os.dup2(target, number)
    os.environ.update(order["environ"])
    from portal.gateway import __main__

    __main__.main()


def main() -> None:
    from portal.gateway import server  # all of the gateway, once

    del server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent = os.getpid()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _be_gateway(json.loads(line), parent)
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
