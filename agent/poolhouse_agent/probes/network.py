"""The interface that the way to the internet goes through."""

from pathlib import Path

from poolhouse_agent.probes.reading import Probe, Unknown, text

_EVERYWHERE = "00000000"


def _interface(root: Path) -> str:
    """The interface of the default route with the lowest metric; IPv6 where there is no IPv4."""
    rows = [line.split() for line in text(root / "proc/net/route").splitlines()[1:]]
    ways = [(int(row[6]), row[0]) for row in rows if row[1] == _EVERYWHERE and row[7] == _EVERYWHERE]
    return min(ways)[1] if ways else _interface_v6(root)


def _interface_v6(root: Path) -> str:
    rows = [line.split() for line in text(root / "proc/net/ipv6_route").splitlines()]
    ways = [(int(row[5], 16), row[9]) for row in rows if set(row[0]) == {"0"} and row[1] == "00" and row[9] != "lo"]
    if not ways:
        raise Unknown("no_default_route")
    return min(ways)[1]


def _kind(root: Path) -> str:
    """`wireless`, `wired`, or `virtual` where no device is behind it (a container, a bridge, a VPN)."""
    interface = root / "sys/class/net" / _interface(root)
    if (interface / "wireless").exists():
        return "wireless"
    return "wired" if (interface / "device").exists() else "virtual"


def _speed_mbits(root: Path) -> int:
    """What the link says; wireless and virtual ones do not know."""
    speed = int(_of(root, "speed"))
    if speed <= 0:
        raise Unknown("not_reported")
    return speed


def _of(root: Path, name: str) -> str:
    return text(root / "sys/class/net" / _interface(root) / name)


def _number(name: str) -> Probe:
    return lambda root: int(_of(root, name))


FACTS: dict[str, Probe] = {
    "network_interface": _interface,
    "network_kind": _kind,
    "network_speed_mbits": _speed_mbits,
    "network_mtu": _number("mtu"),
}
LOAD: dict[str, Probe] = {
    "network_received_bytes": _number("statistics/rx_bytes"),
    "network_sent_bytes": _number("statistics/tx_bytes"),
}
