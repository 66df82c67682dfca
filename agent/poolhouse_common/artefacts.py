"""What a model's folder of weights is called: one digest over every file's name and content."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_CHUNK = 1 << 20

FileDigest = Callable[[Path], str]


def file_digest(path: Path) -> str:
    """Return the hex SHA-256 of a file's content. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def artefact_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and path of every file below the folder, by name; hidden files and folders do not count."""
    found = []
    for root, folders, files in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = Path(root) / name
                found.append((path.relative_to(folder).as_posix(), path))
    yield from sorted(found)


def folder_digest(folder: Path | str, *, of_file: FileDigest = file_digest) -> str:
    """Return the hex SHA-256 over `sha256sum`'s lines of all files, in the order of their names. Raises OSError.

    The same as `find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum` in a folder without
    hidden files; a link to a file counts as the file.
    """
    digest = hashlib.sha256()
    for name, path in artefact_files(Path(folder)):
        digest.update(f"{of_file(path)}  {name}\n".encode())
    return digest.hexdigest()
