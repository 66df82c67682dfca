"""Control messages between agent and portal: built and read here and nowhere else."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poolhouse_agent import PROTOCOL, VERSION
from poolhouse_agent.errors import PortalError
from poolhouse_agent.owner.standing import Standing
from poolhouse_agent.protocol import frames, rounds
from poolhouse_agent.protocol.reading import Reader
from poolhouse_agent.protocol.rounds import WantedRound

_DAY_S = 86_400
_MAX_DEPLOYMENTS = 64
_MAX_MESSAGES = 20
_MAX_FILES = 4096
_BUSY = frozenset({429, 503})
_SECONDS = re.compile(r"[0-9]{1,5}(\.[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The portal's answer to an enrolment."""

    node: str
    provider: str
    heartbeat_s: int


@dataclass(frozen=True, slots=True)
class Challenge:
    """A nonce to sign, once."""

    nonce: str
    server_time: datetime | None


@dataclass(frozen=True, slots=True)
class Session:
    """A session token and where the tunnel is."""

    token: str
    expires_in_s: int
    generation: int
    tunnel_url: str
    heartbeat_s: int


@dataclass(frozen=True, slots=True)
class Desired:
    """One deployment that the portal wants on this node."""

    deployment: str
    model: str
    engine: str
    desired: str
    artefact_digest: str = ""
    context_tokens: int = 4096
    max_output_tokens: int = 4096
    max_concurrency: int = 8
    dtype: str = ""
    quantization: str = ""
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    engine_version: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a model: where they come from, and each path with its SHA-256."""

    source: str
    revision: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Message:
    """Something the portal wants the owner to know."""

    level: str
    code: str
    text: str
    fix: str


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """What the portal answers to a heartbeat."""

    state: str
    heartbeat_s: int
    desired: tuple[Desired, ...]
    messages: tuple[Message, ...]
    server_time: datetime | None = None
    release: str = ""
    check_round: WantedRound | None = None


@dataclass(frozen=True, slots=True)
class DeploymentReport:
    """What this node says about one deployment."""

    deployment: str
    model: str
    state: str
    code: str = ""
    detail: str = ""
    running: int = 0
    waiting: int = 0
    max_concurrency: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def session_text(*, nonce: str, node: str, public_url: str) -> bytes:
    """The bytes that the node's key signs to open a session."""
    return "\n".join(("poolhouse-session-v1", nonce, node, public_url, str(PROTOCOL))).encode()


def enrol_body(*, public_key: str, name: str, is_simulated: bool, host: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an enrolment."""
    return {
        "public_key": public_key,
        "name": name,
        "agent_version": VERSION,
        "protocol": PROTOCOL,
        "is_simulated": is_simulated,
        "host": dict(host),
    }


def session_body(*, node: str, nonce: str, public_url: str, instance: str, signature: str) -> dict[str, Any]:
    """The body of a session request."""
    return {
        "node": node,
        "nonce": nonce,
        "public_url": public_url,
        "protocol": PROTOCOL,
        "instance": instance,
        "signature": signature,
    }


def heartbeat_body(
    *,
    sent_at: datetime,
    wish: str,
    host: Mapping[str, Any],
    gpus: Sequence[Mapping[str, Any]],
    gpu_errors: Sequence[Mapping[str, str]],
    deployments: Sequence[DeploymentReport],
) -> dict[str, Any]:
    """The body of a heartbeat."""
    return {
        "sent_at": sent_at.isoformat(),
        "agent_version": VERSION,
        "wish": wish,
        "host": dict(host),
        "gpus": [_gpu_told(gpu) for gpu in gpus],
        "gpu_errors": [dict(error) for error in gpu_errors],
        "deployments": [_reported(report) for report in deployments],
    }


def _gpu_told(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """A GPU without what is the owner's own business: how many processes use it and with how much, not which."""
    told, values, missing = dict(gpu), dict(gpu["values"]), dict(gpu["missing"])
    processes = values.pop("processes", None)
    if processes is not None:
        values["process_count"] = len(processes)
    if "processes" in missing:
        missing["process_count"] = missing.pop("processes")
    return {**told, "values": values, "missing": missing}


def host_missing_body(missing: Mapping[str, str]) -> dict[str, Any]:
    """What a heartbeat adds of the machine: why a reading is not there."""
    return {"host_missing": dict(missing)}


def owner_body(standing: Standing) -> dict[str, Any]:
    """What a heartbeat adds where the owner keeps the machine: why, and until when."""
    if not standing.code:
        return {}
    return {"owner": {"code": standing.code, "until": standing.until.isoformat() if standing.until else None}}


def _reported(report: DeploymentReport) -> dict[str, Any]:
    return {
        "deployment": report.deployment,
        "state": report.state,
        "code": report.code,
        "detail": report.detail[:400],
        "running": report.running,
        "waiting": report.waiting,
        "counters": dict(report.counters),
        "facts": dict(report.facts),
    }


def hello_body(deployments: Sequence[DeploymentReport]) -> dict[str, Any]:
    """The payload of HELLO."""
    return {
        "protocol": PROTOCOL, "agent_version": VERSION, "max_body_bytes": frames.MAX_BODY_BYTES,
        **status_body(deployments),
    }  # fmt: skip


def status_body(deployments: Sequence[DeploymentReport]) -> dict[str, Any]:
    """The payload of STATUS."""
    return {
        "deployments": [
            {"model": report.model, "state": report.state, "max_concurrency": report.max_concurrency}
            for report in deployments
        ]
    }


def head_body(status: int, headers: Mapping[str, str]) -> dict[str, Any]:
    """The payload of HEAD: of the headers the type alone, and how long a busy engine wants to be left alone."""
    head: dict[str, Any] = {"status": status, "content_type": headers.get("content-type", "")[:100]}
    seconds = headers.get("retry-after", "").strip()
    if status in _BUSY and _SECONDS.fullmatch(seconds):
        head["retry_after_s"] = float(seconds)
    return head


def read_enrolled(value: object) -> Enrolled:
    """Read the answer to an enrolment. Raises PortalError."""
    reader = Reader(value, where="the enrolment answer")
    return Enrolled(
        node=reader.text("node", limit=64),
        provider=reader.text("provider", limit=64, default=""),
        heartbeat_s=reader.whole("heartbeat_s", low=1, high=3600, default=15),
    )


def read_challenge(value: object) -> Challenge:
    """Read a challenge. Raises PortalError."""
    reader = Reader(value, where="the challenge")
    nonce = reader.text("nonce", limit=256)
    if "\n" in nonce:
        raise PortalError("portal_error", "the challenge's nonce has a line end")
    return Challenge(nonce=nonce, server_time=_time(reader.text("server_time", default="", limit=64)))


def read_session(value: object) -> Session:
    """Read the answer to a session request. Raises PortalError."""
    reader = Reader(value, where="the session answer")
    return Session(
        token=reader.text("token", limit=512),
        expires_in_s=reader.whole("expires_in_s", low=5, high=_DAY_S),
        generation=reader.whole("generation", low=0, high=1 << 62),
        tunnel_url=reader.text("tunnel_url", limit=512),
        heartbeat_s=reader.whole("heartbeat_s", low=1, high=3600, default=15),
    )


def read_heartbeat(value: object) -> HeartbeatReply:
    """Read the answer to a heartbeat. Raises PortalError."""
    reader = Reader(value, where="the heartbeat answer")
    return HeartbeatReply(
        state=reader.text("state", default="", limit=32),
        heartbeat_s=reader.whole("heartbeat_s", low=1, high=3600, default=15),
        desired=tuple(read_desired(item) for item in reader.items("desired", limit=_MAX_DEPLOYMENTS)),
        messages=tuple(_message(item) for item in reader.items("messages", limit=_MAX_MESSAGES)),
        release=reader.text("release", default="", limit=24),
        check_round=rounds.read_wanted(reader.table("check_round") or None),
        server_time=_time(reader.text("server_time", default="", limit=64)),
    )


def read_desired(value: object) -> Desired:
    """Read one deployment that should run. Raises PortalError."""
    reader = Reader(value, where="a desired deployment")
    return Desired(
        deployment=reader.text("deployment", limit=64),
        model=reader.text("model", limit=96),
        engine=reader.text("engine", limit=32),
        desired=reader.text("desired", limit=32, default="running"),
        artefact_digest=reader.text("artefact_digest", limit=64, default=""),
        context_tokens=reader.whole("context_tokens", low=16, high=1 << 24, default=4096),
        max_output_tokens=reader.whole("max_output_tokens", low=1, high=1 << 24, default=4096),
        max_concurrency=reader.whole("max_concurrency", low=1, high=4096, default=8),
        dtype=reader.text("dtype", limit=32, default=""),
        quantization=reader.text("quantization", limit=32, default=""),
        engine_args=reader.table("engine_args"),
        settings=reader.table("settings"),
        engine_version=reader.text("engine_version", limit=32, default=""),
    )


def read_manifest(value: object) -> Manifest:
    """Read a model's list of files. Raises PortalError."""
    reader = Reader(value, where="a list of files")
    found = {}
    for item in reader.items("files", limit=_MAX_FILES):
        one = Reader(item, where="a file")
        found[one.text("path", limit=512)] = one.text("sha256", limit=64)
    return Manifest(reader.text("source", limit=240), reader.text("revision", limit=64), found)


def _message(value: object) -> Message:
    reader = Reader(value, where="a message")
    return Message(
        level=reader.text("level", limit=16, default="info"),
        code=reader.text("code", limit=64, default=""),
        text=reader.words("text", limit=1000),
        fix=reader.words("fix", limit=1000),
    )


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else None
