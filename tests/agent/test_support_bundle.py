"""`support-bundle`: all that helps, no secret, and no text of a request, whoever wrote it where."""

import json
import tarfile
from pathlib import Path

import pytest
from poolhouse_agent.engine import host
from poolhouse_agent.support.redaction import Redactor

from tests.agent.test_command_line import Agent, joined
from tests.fakes.pool import Pool

MARKER = "zanzibar-marmalade-marker"
SECRETS = {
    "environment": "hf_AbCdEfGhIjKlMnOpQrSt", "plain environment": "hunter2-of-the-owner",
    "api key": "sk-other-9876543210",
    "session": "ph-session-0123456789abcdef", "enrolment": "ph-enrol-0123456789abcdef", "password": "s3cret-pass-word",
}  # fmt: skip
ENGINE_LOG = f"""\
INFO 11-30 10:00:00 [gpu_worker.py:298] Available KV cache memory: 10.00 GiB
(EngineCore_0 pid=12) INFO 11-30 10:00:01 [kv_cache_utils.py:864] GPU KV cache size: 81,920 tokens
INFO 11-30 10:00:02 [logger.py:40] Received request chatcmpl-1: prompt: '{MARKER}', params: SamplingParams(n=1)
ERROR 11-30 10:00:03 [serving_chat.py:200] Error in preprocessing prompt inputs {MARKER}
Traceback (most recent call last):
  File "/opt/vllm/engine/core.py", line 12, in step
    raise ValueError("{MARKER}")
ValueError: cannot tokenize '{MARKER}'
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB
{MARKER}
"""


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    made = Agent(tmp_path)
    key = tmp_path / "api.key"
    key.write_text(SECRETS["api key"] + "\n", encoding="ascii")
    made.config.write_text(
        f'[external]\n"acme/x" = {{ url = "http://user:{SECRETS["password"]}@127.0.0.1:9", api_key_file = "{key}" }}\n'
        f'[engine.environment]\nHF_TOKEN = "{SECRETS["environment"]}"\nPIN = "{SECRETS["plain environment"]}"\n'
        '[owner]\nquiet = ["03:00-03:01"]\n',
        encoding="ascii",
    )
    return made


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive.getmembers():
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.removeprefix("poolhouse-support/")] = file.read().decode("utf-8")
    return found


async def test_a_bundle_of_a_working_machine_holds_no_secret_and_no_text(
    agent: Agent, pool: Pool, tmp_path: Path
) -> None:
    await joined(agent, pool, tmp_path)
    async with agent.running():
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        await tunnel.ask({"messages": [{"role": "user", "content": MARKER}], "max_tokens": 5})
        await tunnel.ask({"messages": [{"role": "user", "content": MARKER}], "bad_field": MARKER})
        log = agent.state / "engines" / "dep_1" / host.LOG
        with log.open("a", encoding="utf-8") as engine:
            engine.write(ENGINE_LOG + " ".join(SECRETS.values()) + "\n")
        done = await agent.run("support-bundle", "--output", str(tmp_path / "b.tar.gz"), "--json")

    files = unpacked(tmp_path / "b.tar.gz")
    assert (done.status, sorted(done.json["holds"])) == (0, sorted(files))
    assert {"about.json", "status.json", "doctor.json", "configuration.json", "state-folder.txt", "agent.log",
            "state/node.json", "engines/dep_1/engine.log"} <= set(files)  # fmt: skip
    whole = "\n".join(files.values())
    assert MARKER not in whole
    for name, secret in SECRETS.items():
        assert secret not in whole, name
    key = (agent.state / "identity.key").read_text(encoding="ascii")
    assert not any(line in whole for line in key.splitlines() if line)
    assert pool.token not in whole
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600


async def test_what_helps_is_there(agent: Agent, pool: Pool, tmp_path: Path) -> None:
    await joined(agent, pool, tmp_path)
    folder = agent.state / "engines" / "dep_1"
    folder.mkdir(parents=True)
    (folder / host.LOG).write_text(ENGINE_LOG, encoding="utf-8")

    await agent.run("support-bundle", "--output", str(tmp_path / "b.tar.gz"))

    files = unpacked(tmp_path / "b.tar.gz")
    assert json.loads(files["status.json"])["code"] == "agent_not_running"
    assert json.loads(files["configuration.json"])["owner"] == {"quiet": ["03:00-03:01"]}
    assert json.loads(files["configuration.json"])["engine"]["environment"] == {"HF_TOKEN": "***", "PIN": "***"}
    assert json.loads(files["doctor.json"])["checks"] != []
    assert files["engines/dep_1/engine.log"].splitlines() == [
        "INFO 11-30 10:00:00 [gpu_worker.py:298] Available KV cache memory: 10.00 GiB",
        "(EngineCore_0 pid=12) INFO 11-30 10:00:01 [kv_cache_utils.py:864] GPU KV cache size: 81,920 tokens",
        "[3 lines left out]",
        '  File "/opt/vllm/engine/core.py", line 12, in step',
        "[1 lines left out]",
        "ValueError: [left out]",
        "torch.OutOfMemoryError: [left out] (out_of_gpu_memory)",
        "[1 lines left out]",
    ]


async def test_a_machine_that_has_not_joined_gets_one_too(agent: Agent, tmp_path: Path) -> None:
    done = await agent.run("support-bundle", "--output", str(tmp_path / "b.tar.gz"))

    assert done.status == 0
    assert json.loads(unpacked(tmp_path / "b.tar.gz")["status.json"]) == {"code": "not_joined"}
    assert "Nothing was sent" in done.out


async def test_a_place_that_cannot_be_written_is_a_sentence(agent: Agent, tmp_path: Path) -> None:
    done = await agent.run("support-bundle", "--output", str(tmp_path / "none" / "b.tar.gz"))

    assert done.status == 2
    assert "[state_unwritable]" in done.err
    assert "Traceback" not in done.err


async def test_a_link_that_somebody_put_there_is_not_followed(agent: Agent, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="ascii")
    (tmp_path / "b.tar.gz").symlink_to(victim)

    done = await agent.run("support-bundle", "--output", str(tmp_path / "b.tar.gz"))

    assert done.status == 2
    assert victim.read_text(encoding="ascii") == "mine"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("2026-11-30T10:00:00.000+00:00 INFO agent.started node=node_1", True),
        ("2026-11-30T10:00:00.000+00:00 INFO Agent started", False),
        ('{"at": "2026-11-30T10:00:00", "level": "INFO", "event": "agent.started"}', True),
        ('{"at": "2026-11-30T10:00:00", "level": ', False),
        (f"RuntimeError: {MARKER}", False),
    ],
)
def test_of_the_agents_own_log_only_its_events_are_kept(line: str, kept: bool) -> None:
    assert (line in Redactor().own_log(line)) is kept


@pytest.mark.parametrize(
    "line",
    [
        f'2026-11-30T10:00:00.000+00:00 WARNING deployment.failed detail="ValueError: {MARKER} \\" x" a=1',
        f"2026-11-30T10:00:00.000+00:00 WARNING request.failed detail={MARKER} code=x",
        f'{{"at": "2026-11-30T10:00:00", "event": "engine.died", "detail": "{MARKER}"}}',
    ],
)
def test_an_engines_words_do_not_come_along_in_an_event(line: str) -> None:
    assert MARKER not in Redactor().own_log(line)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnop", "HF_TOKEN=***"),
        ('"api_key": "abc"', '"api_key": "***"'),
        ("https://user:pw@host/x", "https://***@host/x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("key ph-enrol-abc", "key ph-enrol-***"),
        ("the secret of the house", "the secret of the house"),
        ("known-text here", "*** here"),
    ],
)
def test_secrets_are_known_by_their_shape_and_by_their_text(text: str, redacted: str) -> None:
    assert Redactor(["known-text"]).text(text) == redacted


def test_values_are_redacted_at_any_depth() -> None:
    assert Redactor(["known-text"]).value({"a": [{"b": "known-text"}, 1, None]}) == {"a": [{"b": "***"}, 1, None]}
