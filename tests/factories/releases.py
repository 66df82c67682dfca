"""Releases of the agent as an operator makes them: built, signed, published."""

import base64
import hashlib
import json
from typing import Any

import factory
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from factory.django import DjangoModelFactory

from portal.nodes.models import AgentRelease
from portal.nodes.rules.releases import version_order
from portal.nodes.services.releases import Files
from portal.operators.agent_releases.signing import public_half
from tests.factories.accounts import JOINED

KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a release key").digest())
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"another key").digest())
PUBLIC_KEY = public_half(KEY)
CONTEXT = b"poolhouse-release-v1\n"


def described(name: str, content: bytes) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


def files(
    version: str = "0.2.0", *, key: Ed25519PrivateKey | None = KEY, wheel: bytes = b"wheel",
    requirements: bytes = b"# none\n", **changed: Any,
) -> Files:  # fmt: skip
    """A release; without a key it is unsigned."""
    name = f"poolhouse_agent-{version}-py3-none-any.whl"
    value = {
        "format": 1, "version": version, "protocol": 1,
        "files": {"wheel": described(name, wheel), "requirements": described("requirements.txt", requirements)},
        **changed,
    }  # fmt: skip
    manifest = json.dumps(value).encode()
    signature = base64.b64encode(key.sign(CONTEXT + manifest)).decode() if key else ""
    return Files(manifest=manifest, signature=signature, wheel=wheel, requirements=requirements)


class AgentReleaseFactory(DjangoModelFactory):
    """A signed release that has reached everybody."""

    class Meta:
        model = AgentRelease

    class Params:
        made = factory.LazyAttribute(lambda row: files(row.version))

    version = factory.Sequence(lambda number: f"0.2.{number}")
    order = factory.LazyAttribute(lambda row: version_order(row.version))
    protocol = 1
    manifest = factory.LazyAttribute(lambda row: row.made.manifest)
    signature = factory.LazyAttribute(lambda row: row.made.signature)
    wheel_name = factory.LazyAttribute(lambda row: f"poolhouse_agent-{row.version}-py3-none-any.whl")
    wheel = factory.LazyAttribute(lambda row: row.made.wheel)
    requirements = factory.LazyAttribute(lambda row: row.made.requirements)
    percent = 100
    published_at = JOINED
