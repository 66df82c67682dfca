"""The owner's configuration: where weights lie, which servers may be used. The portal has no say in any of it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import rules as owner_rules

DEFAULT_CONFIG = Path("/etc/poolhouse/agent.toml")
DEFAULT_STATE = Path("/var/lib/poolhouse")
_HUB = "https://huggingface.co"
LOW_SHARE = 0.1
HIGH_SHARE = 0.99


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """Where the weights of a model lie, and which GPUs they may use (all where empty)."""

    path: Path
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Container:
    """The program that runs engines in containers (none where empty), and the image, named by its digest."""

    tool: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class Downloads:
    """Whether the agent fetches models and engines, from where, how fast (0: as it comes), and what stays free."""

    enabled: bool = True
    hub: str = _HUB
    rate_bytes_s: int = 0
    keep_free_bytes: int = 20 << 30


@dataclass(frozen=True, slots=True)
class ExternalServer:
    """A server that already runs: its base URL and the name it serves the model under."""

    url: str
    served_name: str = ""
    api_key_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The agent's configuration file, read and checked."""

    models: Mapping[str, ModelFolder] = field(default_factory=dict)
    external: Mapping[str, ExternalServer] = field(default_factory=dict)
    allowed_hosts: frozenset[str] = frozenset()
    vllm: str = ""
    nvml: str = ""
    gpu_memory_utilization: float = 0.90
    engine_environment: Mapping[str, str] = field(default_factory=dict)
    container: Container = field(default_factory=Container)
    keep_engines: bool = False
    downloads: Downloads = field(default_factory=Downloads)
    owner: Mapping[str, Any] = field(default_factory=dict)
    receipts_bytes: int = 256 << 20


_SECTIONS = {"models", "external", "engine", "owner", "downloads", "receipts"}
_DOWNLOAD_KEYS = {"enabled", "hub", "rate_mbit", "keep_free_gib"}
_ENGINE_KEYS = {
    "vllm", "nvml", "gpu_memory_utilization", "allowed_hosts", "environment", "container", "image", "keep_running",
}  # fmt: skip


_BYTES_PER_MBIT = 125_000
_CONTAINER_TOOLS = frozenset({"docker", "podman"})


def load(path: Path, *, environ: Mapping[str, str]) -> Config:
    """Read the configuration; the default file may be absent. Raises ConfigError."""
    raw = _read(path)
    unknown = set(raw) - _SECTIONS
    if unknown:
        raise ConfigError("config_invalid", f"{path}: unknown section {min(unknown)!r}")
    engine = _table(raw, "engine", path)
    odd = set(engine) - _ENGINE_KEYS
    if odd:
        raise ConfigError("config_invalid", f"{path}: unknown key {min(odd)!r} in [engine]")
    owner = _table(raw, "owner", path)
    owner_rules.read(owner, where=path)
    return Config(
        owner=owner,
        models={name: _model(name, value, path) for name, value in _table(raw, "models", path).items()},
        external={name: _external(name, value, path) for name, value in _table(raw, "external", path).items()},
        allowed_hosts=frozenset(_texts(engine.get("allowed_hosts", []), "allowed_hosts", path)),
        vllm=environ.get("POOLHOUSE_VLLM") or _text(engine.get("vllm", ""), "vllm", path),
        nvml=environ.get("POOLHOUSE_NVML") or _text(engine.get("nvml", ""), "nvml", path),
        gpu_memory_utilization=_share(engine.get("gpu_memory_utilization", 0.90), path),
        engine_environment=_environment(engine.get("environment", {}), path),
        container=_container(engine, path),
        downloads=_downloads(_table(raw, "downloads", path), path),
        receipts_bytes=_receipts(_table(raw, "receipts", path), path),
        keep_engines=_switch(engine.get("keep_running", False), "keep_running", path),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if path == DEFAULT_CONFIG:
            return {}
        raise ConfigError("config_unreadable", f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError("config_invalid", f"{path}: {error}") from None


def _table(raw: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = raw.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError("config_invalid", f"{path}: [{name}] is not a table")
    return value


def _model(name: str, value: Any, path: Path) -> ModelFolder:
    if isinstance(value, str):
        value = {"path": value}
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        raise ConfigError("config_invalid", f"{path}: [models] {name!r} needs a path")
    folder = Path(value["path"])
    if not folder.is_absolute():
        raise ConfigError("config_invalid", f"{path}: the path of {name!r} is not absolute")
    return ModelFolder(path=folder, gpus=tuple(_texts(value.get("gpus", []), "gpus", path)))


def _external(name: str, value: Any, path: Path) -> ExternalServer:
    if isinstance(value, str):
        value = {"url": value}
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        raise ConfigError("config_invalid", f"{path}: [external] {name!r} needs a url")
    key_file = value.get("api_key_file")
    return ExternalServer(
        url=value["url"].rstrip("/"),
        served_name=_text(value.get("served_name", ""), "served_name", path),
        api_key_file=Path(_text(key_file, "api_key_file", path)) if key_file else None,
    )


def _container(engine: Mapping[str, Any], path: Path) -> Container:
    tool = _text(engine.get("container", ""), "container", path)
    if tool and Path(tool).name not in _CONTAINER_TOOLS:
        raise ConfigError("config_invalid", f"{path}: container is neither docker nor podman")
    return Container(tool, _text(engine.get("image", ""), "image", path))


def _downloads(table: Mapping[str, Any], path: Path) -> Downloads:
    if odd := set(table) - _DOWNLOAD_KEYS:
        raise ConfigError("config_invalid", f"{path}: unknown key {min(odd)!r} in [downloads]")
    hub = _text(table.get("hub", _HUB), "hub", path).rstrip("/")
    if not hub.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise ConfigError("config_invalid", f"{path}: hub is not an https address")
    return Downloads(
        enabled=_switch(table.get("enabled", True), "enabled", path),
        hub=hub,
        rate_bytes_s=_whole(table.get("rate_mbit", 0), "rate_mbit", path) * _BYTES_PER_MBIT,
        keep_free_bytes=_whole(table.get("keep_free_gib", 20), "keep_free_gib", path) << 30,
    )


def _receipts(table: Mapping[str, Any], path: Path) -> int:
    if odd := set(table) - {"keep_mib"}:
        raise ConfigError("config_invalid", f"{path}: unknown key {min(odd)!r} in [receipts]")
    return _whole(table.get("keep_mib", 256), "keep_mib", path) << 20


def _whole(value: Any, name: str, path: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError("config_invalid", f"{path}: {name} is not a whole number")
    return int(value)


def _switch(value: Any, name: str, path: Path) -> bool:
    if not isinstance(value, bool):
        raise ConfigError("config_invalid", f"{path}: {name} is neither true nor false")
    return value


def _text(value: Any, name: str, path: Path) -> str:
    if not isinstance(value, str):
        raise ConfigError("config_invalid", f"{path}: {name} is not a text")
    return value


def _texts(value: Any, name: str, path: Path) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError("config_invalid", f"{path}: {name} is not a list of texts")
    return value


def _share(value: Any, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not LOW_SHARE <= value <= HIGH_SHARE:
        raise ConfigError("config_invalid", f"{path}: gpu_memory_utilization is not between 0.1 and 0.99")
    return float(value)


def _environment(value: Any, path: Path) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ConfigError("config_invalid", f"{path}: [engine.environment] is not a table of texts")
    return value
