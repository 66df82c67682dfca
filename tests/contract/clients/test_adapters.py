"""Clients that speak the pool's formats for somebody else: langchain-openai, litellm, npm's openai, the AI SDK."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients.assistant import TEXT
from tests.contract.clients.conftest import Spoken
from tests.integration.gateway.pool import MODEL

pytestmark = pytest.mark.django_db(transaction=True)

_FOLDER = Path(__file__).parent
_NODE = _FOLDER / "node"
_CALLED = [{"name": name, "arguments": {"model": "x"}} for name in ("price", "speed")]
_EXPECTED: dict[str, Any] = {
    "plain": TEXT,
    "stream": TEXT,
    "tools": _CALLED,
    "streamed_tools": _CALLED,
    "after_tools": "The tools say price 2 and speed 2.",
}


@pytest.mark.parametrize("client", ["langchain_client.py", "litellm_client.py"])
def test_a_python_client(spoken: Spoken, client: str) -> None:
    found = _run([sys.executable, str(_FOLDER / client)], spoken)

    assert found.pop("usage")["completion"] > 0
    _assert_unknown_key(found.pop("error"))
    assert found.pop("responses") == TEXT
    assert found == _EXPECTED


@pytest.mark.parametrize("client", ["openai_client.mjs", "ai_sdk_client.mjs"])
def test_a_client_from_npm(spoken: Spoken, client: str) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed here: Debian's packages nodejs and npm bring them")
    _install(npm)

    found = _run([node, str(_NODE / client)], spoken)

    assert found.pop("usage")["completion"] > 0
    _assert_unknown_key(found.pop("error"))
    assert found.pop("responses", TEXT) == TEXT
    assert found == _EXPECTED


def _assert_unknown_key(error: dict[str, Any]) -> None:
    assert error["status"] == 401
    assert "This API key is not known here" in error["message"]


def _install(npm: str) -> None:
    """Bring what the lock file names, once for each of its versions."""
    lock, stamp = _NODE / "package-lock.json", _NODE / "node_modules" / ".installed"
    if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
        return
    done = subprocess.run([npm, "ci"], cwd=_NODE, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    stamp.write_bytes(lock.read_bytes())


def _run(argv: list[str], spoken: Spoken) -> dict[str, Any]:
    """Return what the client's program printed as its last line."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(spoken.pool.folder),
        "POOL_URL": f"{spoken.url}/v1",
        "POOL_KEY": spoken.pool.key,
        "POOL_MODEL": MODEL,
    }
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
