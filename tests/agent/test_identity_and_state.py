"""The key is private, the configuration is checked, one agent runs on one state folder."""

import stat
from pathlib import Path

import pytest
from poolhouse_agent import config, identity
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.state import Membership, State, Wish

MEMBER = Membership("node_1", "prov_1", "https://pool.example", "n", "")


def test_the_key_is_made_once_with_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"

    first = identity.load_or_create(path)
    second = identity.load_or_create(path)

    assert first.public_key == second.public_key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.sign(b"x") == second.sign(b"x")


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    identity.load_or_create(path)
    path.chmod(0o640)

    with pytest.raises(ConfigError) as raised:
        identity.load(path)

    assert raised.value.code == "state_exposed"


@pytest.mark.parametrize("content", [b"", b"!!!", b"AAAA", b"A" * 1000])
def test_a_damaged_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "identity.key"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(ConfigError) as raised:
        identity.load(path)

    assert raised.value.code == "state_unreadable"


def test_membership_and_wish_survive(state: State) -> None:
    state.store_membership(MEMBER)
    state.store_wish(Wish.DRAIN)

    again = State(state.folder)

    assert again.membership() == MEMBER
    assert again.wish() is Wish.DRAIN


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_damaged_membership_is_refused(state: State, text: str) -> None:
    (state.folder / "node.json").write_text(text, encoding="ascii")

    with pytest.raises(ConfigError) as raised:
        state.membership()

    assert raised.value.code == "state_unreadable"


def test_an_unknown_wish_is_to_serve(state: State) -> None:
    (state.folder / "wish").write_text("explode", encoding="ascii")

    assert state.wish() is Wish.SERVE


def test_two_agents_do_not_run_on_one_state(state: State) -> None:
    with state.running():
        assert state.is_running()
        with pytest.raises(ConfigError) as raised, State(state.folder).running():
            pass

    assert raised.value.code == "agent_running"
    assert not state.is_running()


def test_the_state_folder_is_private(state: State) -> None:
    assert stat.S_IMODE(state.folder.stat().st_mode) == 0o700


def test_a_configuration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        """
[models]
"acme/a" = "/models/a"
"acme/b" = { path = "/models/b", gpus = ["GPU-1"] }
[external]
"acme/c" = "http://127.0.0.1:9000/"
[engine]
vllm = "/opt/vllm"
allowed_hosts = ["10.0.0.5"]
environment = { LD_LIBRARY_PATH = "/opt/cuda" }
""",
        encoding="utf-8",
    )

    found = config.load(path, environ={"POOLHOUSE_VLLM": "/other/vllm"})

    assert found.models["acme/a"] == config.ModelFolder(Path("/models/a"))
    assert found.models["acme/b"].gpus == ("GPU-1",)
    assert found.external["acme/c"].url == "http://127.0.0.1:9000"
    assert found.vllm == "/other/vllm"
    assert found.allowed_hosts == {"10.0.0.5"}
    assert found.engine_environment == {"LD_LIBRARY_PATH": "/opt/cuda"}


@pytest.mark.parametrize(
    "text",
    [
        "[portal]", "[engine]\nshell = 1", "[models]\n'a' = 'relative'", "[models]\n'a' = 1", "[external]\n'a' = {}",
        "[engine]\ngpu_memory_utilization = 1.5", "[engine]\nenvironment = { A = 1 }", "models = 3", "x",
        "[engine]\nvllm = 1", "[engine]\nallowed_hosts = 'x'", "[models]\n'a' = { path = '/a', gpus = [1] }",
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as raised:
        config.load(path, environ={})

    assert raised.value.code == "config_invalid"
    assert str(path) in raised.value.detail


def test_only_the_default_configuration_may_be_absent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        config.load(tmp_path / "none.toml", environ={})

    assert raised.value.code == "config_unreadable"
