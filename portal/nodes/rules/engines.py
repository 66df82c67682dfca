"""Versions of engines: which may serve, and which a node may be told to run."""

import re

from portal.core.errors import InvalidValue

# Below it vLLM's API key can be walked around and model files can run code (CVE-2026-48746, CVE-2026-22807).
FLOOR = "0.22"
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?((?:\.post|rc|a|b)\d{1,4})?")


def parts(version: str) -> tuple[int, int, int]:
    """Return a version's numbers. Raises InvalidValue."""
    found = _VERSION.fullmatch(version.partition("+")[0])
    if found is None:
        raise InvalidValue(f"{version[:32]!r} is not a version", param="version")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def is_below(version: str, floor: str) -> bool:
    """Tell whether the version may not serve. One that cannot be read may not either."""
    try:
        return parts(version) < parts(floor)
    except InvalidValue:
        return True


def require_pin(*, version: str, floor: str) -> None:
    """Raise InvalidValue where the floor is below the software's own, or the version below the floor."""
    if is_below(floor, FLOOR):
        raise InvalidValue(f"the floor cannot be below {FLOOR}: older versions have known holes", param="floor")
    if version and parts(version) < parts(floor):
        raise InvalidValue(f"{version} is below the floor {floor}", param="version")
