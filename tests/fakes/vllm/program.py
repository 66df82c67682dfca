"""A program called `vllm` for tests without vLLM: notes how it was started, then serves like the simulator.

It starts a child of its own that ignores SIGTERM, as vLLM's EngineCore outlives a killed server.
"""

import os
import sys
from pathlib import Path

SCRIPT = """\
#!{python}
import json, os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path({folder!r})
note = {{"argv": sys.argv[1:], "environ": dict(os.environ), "pid": os.getpid()}}
(folder / "started.json").write_text(json.dumps(note))
if (folder / "log.txt").exists():
    print((folder / "log.txt").read_text(), flush=True)
    sys.exit(1)
deaf = "import signal, time\\nsignal.signal(15, signal.SIG_IGN)\\nwhile True: time.sleep(1)"
worker = subprocess.Popen([sys.executable, "-c", deaf])
(folder / "worker").write_text(str(worker.pid))
options = dict(zip(sys.argv[3::1], sys.argv[4::1]))
os.execv(sys.executable, [sys.executable, "-m", "poolhouse_agent.simulate", "--port", options["--port"], "--model",
    options["--served-model-name"], "--context", options["--max-model-len"], "--tokens-per-second", "2000",
    "--behaviour-file", str(folder / "behaviour")])
"""


def write(folder: Path) -> str:
    """Write the program into `folder`; return its path."""
    path = folder / "vllm"
    path.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    path.chmod(0o700)
    return os.fspath(path)
