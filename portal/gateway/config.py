"""What one gateway process is told by its environment."""

import socket
from dataclasses import dataclass
from pathlib import Path

from portal.gateway.tunnel import peer_tls
from portal.gateway.tunnel.peer_tls import PeerTls
from portal.settings import env


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The process's fixed index, its folders and its limits."""

    index: int
    process: str
    spool_dir: Path
    peer_dir: Path
    key_requests_per_minute: int
    key_tokens_per_minute: int
    key_concurrency: int
    drain_s: int
    country_header: str = ""
    metrics_dir: Path | None = None
    retry_floor: int = 10
    peer_tls: PeerTls | None = None

    @property
    def peer_socket(self) -> str:
        """Return the Unix path where other processes of this host reach our tunnels."""
        return str(self.peer_dir / f"gateway-{self.index}.sock")

    @property
    def peer_address(self) -> str:
        """Return where any process of the pool reaches our tunnels."""
        return self.peer_socket if self.peer_tls is None else self.peer_tls.address(self.peer_socket)


def from_environment() -> GatewayConfig:
    """Read GATEWAY_*. Raises ImproperlyConfigured naming the bad setting."""
    index = env.integer("GATEWAY_INDEX", 0, low=0, high=999)
    peer_dir = Path(env.required("GATEWAY_PEER_DIR", "where the gateway processes of this host meet"))
    return GatewayConfig(
        index=index,
        process=f"gateway@{index}.{socket.gethostname()[:40]}",
        spool_dir=Path(env.required("GATEWAY_SPOOL_DIR", "where this process keeps its usage until it is shipped")),
        peer_dir=peer_dir,
        key_requests_per_minute=env.integer("GATEWAY_KEY_REQUESTS_PER_MINUTE", 6_000, low=1, high=100_000_000),
        key_tokens_per_minute=env.integer("GATEWAY_KEY_TOKENS_PER_MINUTE", 20_000_000, low=1, high=10**12),
        key_concurrency=env.integer("GATEWAY_KEY_CONCURRENCY", 1_000, low=1, high=1_000_000),
        drain_s=env.integer("GATEWAY_DRAIN_S", 30, low=0, high=3_600),
        country_header=env.text("GATEWAY_COUNTRY_HEADER"),
        metrics_dir=peer_dir / "metrics",
        peer_tls=peer_tls.from_settings(
            listen=env.text("GATEWAY_PEER_LISTEN"),
            certificate=env.text("GATEWAY_PEER_CERT"),
            key=env.text("GATEWAY_PEER_KEY"),
            authority=env.text("GATEWAY_PEER_CA"),
        ),
        retry_floor=env.integer("GATEWAY_RETRY_FLOOR", 10, low=1, high=10_000),
    )
