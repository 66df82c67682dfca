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
with (folder / "starts.jsonl").open("a") as starts:
    starts.write(json.dumps(note) + "\\n")
fits = (folder / "fits").read_text() if (folder / "fits").exists() else None
if (folder / "log.txt").exists() and fits not in sys.argv:
    print((folder / "log.txt").read_text(), flush=True)
    sys.exit(1)
while (folder / "wait").exists():
    time.sleep(0.05)
deaf = "import signal, time\\nsignal.signal(15, signal.SIG_IGN)\\nwhile True: time.sleep(1)"
worker = subprocess.Popen([sys.executable, "-c", deaf])
(folder / "worker").write_text(str(worker.pid))
options = {{"--max-num-seqs": "16", **dict(zip(sys.argv[3::1], sys.argv[4::1]))}}
os.execv(sys.executable, [sys.executable, "-m", "poolhouse_agent.simulate", "--port", options["--port"], "--model",
    options["--served-model-name"], "--context", options["--max-model-len"], "--tokens-per-second", "400",
    "--behaviour-file", str(folder / "behaviour"), "--version", {version!r},
    "--max-num-seqs", options["--max-num-seqs"]])
"""


def write(folder: Path, *, version: str = "0.32.0") -> str:
    """Write the program into `folder`; return its path."""
    path = folder / "vllm"
    path.write_text(SCRIPT.format(python=sys.executable, folder=str(folder), version=version), encoding="utf-8")
    path.chmod(0o700)
    return os.fspath(path)


def install(root: Path, version: str) -> Path:
    """Write it as the agent's own installation of a version; return the folder where it notes its starts."""
    folder = root / version / "bin"
    folder.mkdir(parents=True)
    write(folder, version=version)
    (root / version / ".complete").touch()
    return folder
