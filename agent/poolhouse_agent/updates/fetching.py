"""Fetches a release from the pool: small answers, no redirects, nothing kept that was not signed."""

import ssl
from dataclasses import dataclass

import httpx

from poolhouse_agent import VERSION, addresses
from poolhouse_agent.errors import UpdateError
from poolhouse_agent.installation import Origin
from poolhouse_agent.updates import manifest
from poolhouse_agent.updates.manifest import Manifest

_MAX_MANIFEST_BYTES = 65_536
_MAX_SIGNATURE_BYTES = 256
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_OK = 200


@dataclass(frozen=True, slots=True)
class Release:
    """A release whose every byte was checked."""

    manifest: Manifest
    wheel: bytes
    requirements: bytes


def fetch(origin: Origin, *, version: str, present: str) -> Release:
    """Fetch and check the version. Raises UpdateError, ConfigError."""
    manifest.version_parts(version)  # it becomes part of an address
    server = addresses.portal_url(origin.server)
    with httpx.Client(
        base_url=f"{server}/agent/v1/releases/{version}/",
        timeout=_TIMEOUT,
        follow_redirects=False,
        trust_env=False,
        verify=ssl.create_default_context() if server.startswith("https:") else False,
        headers={"user-agent": f"poolhouse-agent/{VERSION}"},
    ) as client:
        raw = _get(client, "manifest.json", _MAX_MANIFEST_BYTES)
        signature = _get(client, "manifest.sig", _MAX_SIGNATURE_BYTES).decode("ascii", "replace").strip()
        found = manifest.read(raw, signature=signature, public_key=origin.public_key)
        manifest.require_newer(found, wanted=version, present=present)
        wheel = _get(client, found.wheel.name, found.wheel.size)
        requirements = _get(client, found.requirements.name, found.requirements.size)
    found.wheel.require(wheel)
    found.requirements.require(requirements)
    return Release(found, wheel, requirements)


def _get(client: httpx.Client, name: str, limit: int) -> bytes:
    taken = bytearray()
    try:
        with client.stream("GET", name) as answer:
            if answer.status_code != _OK:
                raise UpdateError("release_unreachable", f"{name}: status {answer.status_code}")
            for part in answer.iter_bytes():
                taken += part
                if len(taken) > limit:
                    raise UpdateError("release_invalid", f"{name} is longer than {limit} bytes")
    except httpx.HTTPError as error:
        raise UpdateError("release_unreachable", f"{name}: {str(error) or type(error).__name__}") from None
    return bytes(taken)
