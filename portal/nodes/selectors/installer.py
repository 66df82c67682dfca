"""The script that installs the agent, filled in for this pool."""

import hashlib
import re
from pathlib import Path
from urllib.parse import quote

from django.conf import settings

from portal.nodes.models import AgentRelease
from portal.nodes.rules.releases import read_manifest

_SCRIPT = Path("agent") / "install.sh"
_BLANK = re.compile(r"^(server|version|wheel|wheel_sha256|requirements_sha256|release_key)=''$", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z0-9._+/=:\[\]-]*")


def script_for(release: AgentRelease) -> str:
    """Return the installer with the pool's address, the release's digests and the key to pin."""
    manifest = read_manifest(bytes(release.manifest))
    values = {
        "server": settings.PUBLIC_URL,
        "version": release.version,
        "wheel": manifest.wheel.name,
        "wheel_sha256": manifest.wheel.sha256,
        "requirements_sha256": manifest.requirements.sha256,
        "release_key": settings.AGENT_RELEASE_PUBLIC_KEY,
    }
    blank = (settings.BASE_DIR / _SCRIPT).read_text(encoding="utf-8")
    return _BLANK.sub(lambda found: f"{found[1]}='{_quoted(values[found[1]])}'", blank)


def script_digest(release: AgentRelease) -> str:
    """Return the hex SHA-256 of the installer as it is served."""
    return hashlib.sha256(script_for(release).encode()).hexdigest()


def _quoted(value: str) -> str:
    """Nothing that a shell could take for more than text."""
    return value if _PLAIN.fullmatch(value) else quote(value, safe=":/.")
