"""The installed vLLM and a tiny model made for it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENV = Path(os.environ.get("POOLHOUSE_VLLM_VENV", ROOT / ".venv-vllm"))
MODELS = ROOT / ".cache" / "tiny-models"
CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; without it the cache takes a share of all memory
    "TORCHDYNAMO_DISABLE": "1",  # else the first request with logprobs compiles for half a minute
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else every server pins itself to core 0
}


@pytest.fixture(scope="session")
def vllm_program() -> str:
    """The `vllm` program."""
    program = VENV / "bin" / "vllm"
    if not program.exists():
        pytest.skip(f"no vLLM in {VENV}; `sh tests/vllm/install.sh {VENV}` installs it (Python 3.11 only)")
    return str(program)


@pytest.fixture(scope="session")
def tiny_chat(vllm_program: str) -> Path:
    """A folder with a tiny chat model, built once."""
    return _made("chat")


@pytest.fixture(scope="session")
def tiny_embed(vllm_program: str) -> Path:
    """A folder with a tiny embedding model, built once."""
    return _made("embed")


def _made(kind: str) -> Path:
    folder = MODELS / kind
    if not (folder / "model.safetensors").exists():
        maker = Path(__file__).with_name("make_tiny_model.py")
        python = str(VENV / "bin" / "python")
        subprocess.run([python, str(maker), str(MODELS), "--kind", kind], check=True, timeout=300)
    return folder
