"""Turns validated messages into the domain's own values, and back."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from portal.nodes.models import CheckRound, Deployment
from portal.nodes.rules.beats import Beat, DeploymentClaim, GpuClaim, GpuError, OwnerClaim, SliceClaim, UpdateClaim
from portal.nodes.selectors.engines import pin_for
from portal.nodes.services.heartbeat import Answer


def beat_from(message: Mapping[str, Any]) -> Beat:
    """Return the heartbeat of a validated message."""
    return Beat(
        sent_at=message["sent_at"],
        agent_version=message["agent_version"],
        wish=message["wish"],
        host=message["host"],
        host_missing=message["host_missing"],
        gpus=tuple(_gpu(gpu) for gpu in message["gpus"]),
        gpu_errors=tuple(GpuError(**error) for error in message["gpu_errors"]),
        deployments=tuple(DeploymentClaim(**row) for row in message["deployments"]),
        owner=OwnerClaim(**message["owner"]) if message["owner"] else None,
        updates=UpdateClaim(**message["updates"]) if message["updates"] else None,
    )


def _gpu(message: Mapping[str, Any]) -> GpuClaim:
    slices = tuple(SliceClaim(**one) for one in message["instances"])
    return GpuClaim(**{**message, "instances": slices})


def time_text(moment: datetime) -> str:
    """Return ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def heartbeat_answer(answer: Answer, *, heartbeat_s: int, now: datetime) -> dict[str, object]:
    """Return the message that answers a heartbeat."""
    return {
        "server_time": time_text(now),
        "state": answer.state,
        "heartbeat_s": heartbeat_s,
        "desired": [_desired(row) for row in answer.desired],
        "messages": [
            {"level": notice.level, "code": notice.code, "text": notice.text, "fix": notice.fix}
            for notice in answer.notices
        ],
        **({"release": answer.release} if answer.release else {}),
        **({"check_round": _round(answer.check_round)} if answer.check_round else {}),
    }


def _round(row: CheckRound) -> dict[str, object]:
    return {"round": row.public_id, "reason": row.reason, "is_whole": row.is_whole}


def _desired(row: Deployment) -> dict[str, object]:
    model = row.model
    return {
        "deployment": row.public_id,
        "model": model.public_id,
        "engine": row.engine,
        "desired": row.desired,
        "artefact_digest": model.artefact_digest,
        "context_tokens": model.context_tokens,
        "max_output_tokens": model.max_output_tokens,
        "max_concurrency": row.max_concurrency,
        "dtype": model.dtype,
        "quantization": model.quantization,
        "engine_args": model.engine_args,
        "settings": row.settings,
        "engine_version": pin_for(row).version,
    }
