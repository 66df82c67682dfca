"""`make demo ONCE=1 ENGINE_URL=…` on a real vLLM that already runs: to the payout, billed as vLLM counted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from poolhouse_agent.engine.metrics import parse

from portal.sandbox import processes, waiting
from tests.vllm.conftest import CPU_ENVIRONMENT, ROOT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


@pytest.fixture(scope="module")
def engine_url(tmp_path_factory: pytest.TempPathFactory, vllm_program: str, tiny_chat: Path) -> Iterator[str]:
    """A vLLM that its owner has started."""
    port = processes.free_port()
    log = tmp_path_factory.mktemp("engine") / "vllm.log"
    flags = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny-chat", "--max-model-len", "512"]
    argv = [vllm_program, "serve", str(tiny_chat), *flags, "--max-num-seqs", "4", "--enforce-eager"]
    server = processes.start(argv, log=log, environ=os.environ | CPU_ENVIRONMENT | OFFLINE)
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            return httpx.get(f"{url}/health", timeout=5.0, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    waiting.until("vLLM is up", is_ready, timeout_s=240)
    yield url
    processes.stop(server, timeout_s=60)


def generated(url: str) -> int:
    load = parse(httpx.get(f"{url}/metrics", timeout=10.0, trust_env=False).text)
    assert load is not None
    return load.counters["generation_tokens_total"]


def test_its_provider_is_paid_for_what_vllm_generated(engine_url: str) -> None:
    before = generated(engine_url)
    port = str(processes.free_port())
    argv = [sys.executable, "manage.py", "demo", "--once", "--port", port, "--engine-url", engine_url]
    unset = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}

    done = subprocess.run(argv, cwd=ROOT, env=unset, capture_output=True, text=True, check=False, timeout=400)

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["requests"], result["payout_state"], result["ledger_differences"]) == (2, "transferred", 0)
    assert result["stripe_transfer"].startswith("tr_")
    assert result["payout_minor"] == result["provider_earned_nano"] // 10**7 > 0
    # vLLM has generated what was billed, and the few tokens by which the agent proves that it is ready.
    assert 0 < result["completion_tokens"] <= generated(engine_url) - before
