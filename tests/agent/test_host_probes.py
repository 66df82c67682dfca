"""Probes of the machine over file trees of machines we do not have: each reading is a value or a reason."""

from pathlib import Path

import pytest
from poolhouse_agent import host
from poolhouse_agent.probes import reading, surroundings
from poolhouse_agent.probes.reading import Unknown
from poolhouse_common import failures

from portal.nodes.rules import readings

CPUINFO = "\n".join(
    f"processor\t: {number}\nmodel name\t: AMD EPYC 7763\nphysical id\t: {number // 4}\ncore id\t: {number % 4 // 2}\n"
    "flags\t\t: fpu sse hypervisor\n"
    for number in range(8)
)
ROUTES = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    "wlp3s0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
    "eno1\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "root"
    found.mkdir()
    return found


def put(root: Path, name: str, content: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")


def test_a_machine_that_shows_nothing_has_a_reason_for_everything(root: Path) -> None:
    report = host.report(root / "state", root=root)

    assert not set(report.values) & set(report.missing)
    assert set(report.values) | set(report.missing) == set(readings.HOST)
    assert {reason for reason in report.missing.values() if failures.find(reason) is None} == set()
    assert "memory_bytes" not in report.values
    assert report.missing["memory_bytes"] == "not_present"


def test_this_machine_is_believed_by_the_portal(tmp_path: Path) -> None:
    report = host.report(tmp_path)

    kept = readings.host(report.values, report.missing)

    assert kept.values == report.values
    assert kept.missing == report.missing
    assert {"os", "kernel", "cpu_count", "memory_bytes", "disk_free_bytes", "uptime_s"} <= set(kept.values)


def test_a_server_with_two_sockets_and_a_way_out(root: Path) -> None:
    put(root, "proc/cpuinfo", CPUINFO)
    put(root, "proc/meminfo", "MemTotal:       528210072 kB\nMemAvailable:   1024 kB\nSwapTotal: 0 kB\n")
    put(root, "proc/net/route", ROUTES)
    put(root, "sys/class/net/eno1/speed", "10000\n")
    put(root, "sys/class/net/eno1/mtu", "9000\n")
    (root / "sys/class/net/eno1/device").mkdir()
    put(root, "sys/fs/cgroup/cpu.max", "1600000 100000\n")
    put(root, "sys/fs/cgroup/memory.max", "max\n")
    for node in ("node0", "node1"):
        (root / "sys/devices/system/node" / node).mkdir(parents=True)
    put(
        root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Rel\n"
    )

    report = host.report(root / "state", root=root)

    wanted = {
        "cpu_model": "AMD EPYC 7763", "cpu_cores": 4, "cpu_sockets": 2, "cpu_limit_milli": 16_000, "numa_nodes": 2,
        "memory_bytes": 540_887_113_728, "memory_available_bytes": 1 << 20, "swap_bytes": 0,
        "network_interface": "eno1", "network_kind": "wired", "network_speed_mbits": 10_000, "network_mtu": 9_000,
        "driver_module": "570.133.20", "driver_module_kind": "open", "virtualization": "unknown",
    }  # fmt: skip
    assert {name: report.values.get(name) for name in wanted} == wanted
    assert report.missing["memory_limit_bytes"] == "no_limit"


@pytest.mark.parametrize(("speed", "reason"), [("-1\n", "not_reported"), ("fast\n", "unreadable")])
def test_a_link_that_does_not_know_its_speed_is_not_one_of_speed_zero(root: Path, speed: str, reason: str) -> None:
    put(root, "proc/net/route", ROUTES)
    put(root, "sys/class/net/eno1/speed", speed)

    report = host.report(root / "state", root=root)

    assert report.missing["network_speed_mbits"] == reason


def test_a_machine_without_a_way_out_says_so(root: Path) -> None:
    put(root, "proc/net/route", ROUTES.splitlines()[0] + "\n")
    put(root, "proc/net/ipv6_route", "")

    assert host.report(root / "state", root=root).missing["network_interface"] == "no_default_route"


@pytest.mark.parametrize(
    ("maker", "product", "flags", "found"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "fpu hypervisor", "kvm"),
        ("VMware, Inc.", "VMware Virtual Platform", "fpu hypervisor", "vmware"),
        ("Microsoft Corporation", "Virtual Machine", "fpu hypervisor", "hyper-v"),
        ("Amazon EC2", "p4d.24xlarge", "fpu hypervisor", "aws"),
        ("Amazon EC2", "g4dn.metal", "fpu", "none"),
        ("Supermicro", "SYS-420GP-TNR", "fpu", "none"),
        ("", "", "fpu hypervisor", "unknown"),
    ],
)
def test_what_a_machine_runs_in(root: Path, maker: str, product: str, flags: str, found: str) -> None:
    put(root, "sys/class/dmi/id/sys_vendor", maker)
    put(root, "sys/class/dmi/id/product_name", product)
    put(root, "proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\n")

    assert host.facts(root / "state", root=root)["virtualization"] == found


@pytest.mark.parametrize(
    ("file", "content", "found"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", "", "podman"),
        ("run/systemd/container", "lxc\n", "lxc"),
        ("proc/1/cgroup", "0::/kubepods/besteffort/pod1\n", "kubernetes"),
        ("proc/1/cgroup", "0::/init.scope\n", "none"),
    ],
)
def test_the_kind_of_container(root: Path, file: str, content: str, found: str) -> None:
    put(root, file, content)

    assert host.facts(root / "state", root=root)["container"] == found


def test_wsl_and_embedded_boards_are_known_by_the_kernel_and_the_board(root: Path) -> None:
    assert not surroundings.machine(root).is_wsl
    put(root, "proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
    put(root, "etc/nv_tegra_release", "# R36\n")

    found = surroundings.machine(root)

    assert (found.is_wsl, found.is_jetson) == (True, True)
    assert host.facts(root / "state", root=root)["virtualization"] == "wsl"


@pytest.mark.parametrize(
    ("rotational", "device", "kind"), [("0", "nvme0n1", "ssd"), ("1", "sda", "hdd"), ("1", "vda", "virtual_device")]
)
def test_the_disk_under_the_state_folder(root: Path, rotational: str, device: str, kind: str) -> None:
    folder = root / "srv/state"
    put(
        root,
        "proc/self/mountinfo",
        f"21 1 8:1 / / rw - ext4 /dev/x rw\n40 21 259:2 / {root / 'srv'} rw - xfs /dev/y rw\n",
    )
    block = root / f"sys/devices/{device}"
    put(root, f"sys/devices/{device}/queue/rotational", rotational + "\n")
    (block / "part1").mkdir()
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/259:2").symlink_to(block if device == "vda" else block / "part1")
    (root / "srv").mkdir()

    report = host.report(folder, root=root)

    assert report.values["disk_file_system"] == "xfs"
    assert report.values.get("disk_kind", report.missing.get("disk_kind")) == kind
    assert report.values["disk_free_bytes"] > 0


def test_the_systems_own_id_is_not_given_away(root: Path) -> None:
    put(root, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")

    first = host.facts(root / "state", root=root)["host_id"]

    assert len(first) == 32
    assert "0123456789abcdef" not in first
    assert host.facts(root / "state", root=root)["host_id"] == first


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (FileNotFoundError(), "not_present"), (PermissionError(), "no_permission"), (OSError(22, "x"), "unreadable"),
        (ValueError("x"), "unreadable"), (Unknown("no_limit"), "no_limit"),
    ],
)  # fmt: skip
def test_what_a_probe_meets_becomes_a_reason(root: Path, raised: Exception, reason: str) -> None:
    def probe(_root: Path) -> int:
        raise raised

    assert reading.ask({"it": probe, "other": lambda _root: 1}, root) == ({"other": 1}, {"it": reason})
