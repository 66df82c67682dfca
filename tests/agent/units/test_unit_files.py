"""The units that the agent writes: systemd takes them, and each has the fences its process needs and no others."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.units import render
from poolhouse_agent.units.render import Place

ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


def rendered(folder: Path, *, is_user: bool = False) -> Path:
    """Write the units of an installation with its own releases, as `service install` does."""
    state, program = folder / "state", folder / "versions" / "1" / "bin" / "poolhouse-agent"
    (state / "engines").mkdir(parents=True)
    program.parent.mkdir(parents=True)
    for name in ("poolhouse-agent", "python"):
        program.with_name(name).write_text("#!/bin/sh\n", encoding="ascii")
        program.with_name(name).chmod(0o755)
    for link in ("current", "updater"):
        (folder / link).symlink_to("versions/1")
    (folder / "release.json").write_text("{}", encoding="ascii")
    units = folder / "units"
    units.mkdir()
    place = Place(folder / "agent.toml", state, is_user=is_user)
    for name, text in render.unit_files(place, environ={}, prefix=folder / "versions" / "1").items():
        (units / name).write_text(text, encoding="ascii")
    return units


def analyze(units: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ANALYZE), *words], capture_output=True, text=True, check=False, timeout=60, cwd=units,
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{units}:", "SYSTEMD_COLORS": "0"},
    )  # fmt: skip


@needs_systemd
@pytest.mark.parametrize(("is_user", "count"), [(False, 7), (True, 3)])
def test_systemd_finds_nothing_wrong_with_any_unit(tmp_path: Path, count: int, *, is_user: bool) -> None:
    units = rendered(tmp_path, is_user=is_user)

    names = sorted(f"./{path.name}" for path in units.iterdir())
    done = analyze(units, "verify", "--man=no", *names)

    assert len(names) == count
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_a_broken_unit_would_be_found(tmp_path: Path) -> None:
    units = rendered(tmp_path)
    unit = units / "poolhouse-agent.service"
    unit.write_text(unit.read_text(encoding="ascii").replace("WatchdogSec=60", "WatchdogSec=soon"), encoding="ascii")

    done = analyze(units, "verify", "--man=no", "./poolhouse-agent.service")

    assert "poolhouse-agent.service:12: Failed to parse sec value" in done.stderr


@needs_systemd
@pytest.mark.parametrize(
    ("unit", "highest"),
    [
        ("poolhouse-agent.service", 2.5),
        ("poolhouse-engine@.service", 4.0),
        ("poolhouse-download@.service", 2.5),
        ("poolhouse-update.service", 4.0),
    ],
)
def test_exposure_stays_low(tmp_path: Path, unit: str, highest: float) -> None:
    units = rendered(tmp_path)

    done = analyze(units, "security", "--offline=true", "--no-pager", f"./{unit}")

    found = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) <= highest


def lines(units: Path, name: str) -> list[str]:
    return (units / name).read_text(encoding="ascii").splitlines()


def test_an_engine_has_no_network_but_loopback_and_all_that_cuda_needs(tmp_path: Path) -> None:
    unit = lines(rendered(tmp_path), "poolhouse-engine@.service")

    assert {"IPAddressDeny=any", "IPAddressAllow=localhost", "LimitMEMLOCK=infinity"} <= set(unit)
    for fence in (
        "PrivateDevices",
        "DevicePolicy",
        "MemoryDenyWriteExecute",
        "PrivateNetwork",
        "PrivateIPC",
        "ProcSubset",
    ):
        assert not [line for line in unit if line.startswith(f"{fence}=")]


def test_an_engine_outlives_the_agent_and_cannot_read_its_key(tmp_path: Path) -> None:
    unit = lines(rendered(tmp_path), "poolhouse-engine@.service")

    assert not [line for line in unit if line.startswith(("PartOf=", "BindsTo=", "Requires="))]
    assert f"InaccessiblePaths=-{tmp_path}/state/identity.key" in unit


def test_a_download_has_network_and_no_gpu(tmp_path: Path) -> None:
    unit = lines(rendered(tmp_path), "poolhouse-download@.service")

    assert "PrivateDevices=yes" in unit
    assert not [line for line in unit if line.startswith("IPAddress")]


def test_only_the_agents_user_may_start_engines(tmp_path: Path) -> None:
    unit = lines(rendered(tmp_path), "poolhouse-engine.socket")

    assert {"SocketUser=poolhouse", "SocketMode=0600", "Accept=yes"} <= set(unit)


def test_the_agent_is_watched_and_follows_the_link_to_the_version_in_use(tmp_path: Path) -> None:
    unit = lines(rendered(tmp_path), "poolhouse-agent.service")

    assert {"Type=notify", "WatchdogSec=60", "User=poolhouse", "NoNewPrivileges=yes", "CapabilityBoundingSet="} <= set(
        unit
    )
    start = next(line for line in unit if line.startswith("ExecStart="))
    assert start == (
        f"ExecStart={tmp_path}/current/bin/poolhouse-agent --config {tmp_path}/agent.toml --state {tmp_path}/state run"
    )


def test_a_persons_own_units_ask_for_nothing_that_only_root_may_give(tmp_path: Path) -> None:
    units = rendered(tmp_path, is_user=True)

    text = "\n".join(path.read_text(encoding="ascii") for path in units.iterdir())
    assert not re.search(r"^(User|CapabilityBoundingSet|ProtectSystem|IPAddressDeny|SocketUser)=", text, re.MULTILINE)
    assert "WantedBy=default.target" in text


def test_without_an_installation_there_is_nothing_to_update(tmp_path: Path) -> None:
    units = render.unit_files(Place(tmp_path / "agent.toml", tmp_path / "state"), environ={}, prefix=tmp_path)

    assert not [name for name in units if "update" in name]


@pytest.mark.parametrize("path", ["/opt/x y", "/opt/50%", '/opt/"', "/opt/x\nExecStartPre=/bin/evil"])
def test_a_path_that_a_unit_cannot_hold_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        render.unit_files(Place(tmp_path / "agent.toml", Path(path)), environ={})

    assert caught.value.code == "config_invalid"
