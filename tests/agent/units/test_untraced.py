"""Under systemd an engine that was taken over cannot reach into the agent, though both are of one user."""

import subprocess
import sys

import pytest

ASK = (
    "import os; from poolhouse_agent.units import untraced as u; u.within_service(os.environ); print(u.is_traceable())"
)


@pytest.mark.parametrize(("environ", "said"), [({"NOTIFY_SOCKET": "/run/x"}, "False"), ({}, "True")])
def test_only_root_may_trace_the_service(environ: dict[str, str], said: str) -> None:
    path = ":".join(sys.path)

    done = subprocess.run(
        [sys.executable, "-c", ASK], env={**environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == said
