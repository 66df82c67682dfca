"""The weights folder that the owner named: there, the catalogue's own, and without code in it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poolhouse_common import artefacts

from poolhouse_agent.errors import EngineError

_CODE = frozenset({".py", ".pyc", ".so", ".sh", ".dll", ".pyd"})
_PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz"})
_MAX_JSON_BYTES = 64 << 20


def require_safe(folder: Path) -> None:
    """Refuse a folder that is missing, holds code or pickles, or asks for remote code. Raises EngineError."""
    if not (folder / "config.json").is_file():
        raise EngineError("weights_missing", f"{folder} has no config.json")
    if linked := next((path for path in folder.rglob("*") if path.is_symlink() and path.is_dir()), None):
        raise EngineError("weights_unsafe", f"{linked.name} is a link to a folder, which no digest covers")
    has_weights = False
    for name, path in artefacts.artefact_files(folder):
        require_kind(name)
        suffix = path.suffix.lower()
        if suffix == ".json" and _asks_for_code(path):
            raise EngineError("weights_unsafe", f"{name} has an auto_map, which runs code of the model's author")
        has_weights = has_weights or suffix == ".safetensors"
    if not has_weights:
        raise EngineError("weights_missing", f"{folder} holds no safetensors file")


def require_kind(name: str) -> None:
    """Refuse a file that could run code, by its name, before it is fetched. Raises EngineError."""
    suffix = Path(name).suffix.lower()
    if suffix in _CODE | _PICKLES:
        raise EngineError("weights_unsafe", f"{name}: {suffix} files can run code when they are loaded")


def require_digest(folder: Path, wanted: str, *, cache: Path) -> None:
    """Refuse weights that are not the catalogue's. Raises EngineError."""
    if not wanted:
        raise EngineError("weights_mismatch", "the pool names no digest, so nothing says which weights these should be")
    known = _Digests(cache)
    try:
        found = artefacts.folder_digest(folder, of_file=known.of)
    except OSError as error:
        raise EngineError("weights_missing", str(error)) from None
    known.store()
    if found != wanted:
        raise EngineError("weights_mismatch", f"{folder} is {found[:16]}…, the catalogue says {wanted[:16]}…")


def _asks_for_code(path: Path) -> bool:
    if path.stat().st_size > _MAX_JSON_BYTES:
        raise EngineError("weights_unsafe", f"{path.name} is larger than any configuration")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise EngineError("weights_unsafe", f"{path.name} is not JSON") from None
    return any("auto_map" in one for one in _objects(value))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield one
            pending += one.values()
        elif isinstance(one, list):
            pending += one


class _Digests:
    """Digests of files by name, size and time of change, so that 100 GB are read once and not at every start."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._known = self._load()

    def of(self, path: Path) -> str:
        """The digest of one file. Raises OSError."""
        now = path.stat()
        key = f"{path.resolve()}|{now.st_size}|{now.st_mtime_ns}|{now.st_ctime_ns}|{now.st_ino}"
        if key not in self._known:
            self._known[key] = artefacts.file_digest(path)
        return self._known[key]

    def store(self) -> None:
        """Write what is known."""
        self._cache.write_text(json.dumps(self._known), encoding="utf-8")

    def _load(self) -> dict[str, str]:
        try:
            value = json.loads(self._cache.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}
