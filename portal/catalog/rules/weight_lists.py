"""The list of a model's files, as `sha256sum` prints it: its own SHA-256 is the model's artefact digest."""

import re
from dataclasses import dataclass

from portal.core.errors import InvalidValue

MAX_BYTES = 1_000_000
_MOST_FILES = 4096
_AGAIN = "Make the list in the model's folder with the command of the page, and store it as it is."
_LINE = re.compile(r"([0-9a-f]{64})  ((?:[A-Za-z0-9_][\w.+-]*/)*[A-Za-z0-9_][\w.+-]*)")
_CODE = frozenset({"py", "pyc", "so", "sh", "dll", "pyd", "bin", "pt", "pth", "pkl", "pickle", "ckpt", "joblib"})


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One file: its path below the model's folder, and its content's SHA-256."""

    path: str
    sha256: str


def read(content: bytes) -> tuple[WeightFile, ...]:
    """Return the files of a list, whose order is that of their names. Raises InvalidValue."""
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise InvalidValue("the list is not plain text", param="files", fix=_AGAIN) from None
    if lines.pop() != "" or not 0 < len(lines) <= _MOST_FILES:
        raise InvalidValue(f"the list has 1 to {_MOST_FILES} whole lines", param="files", fix=_AGAIN)
    found = tuple(map(_file, lines))
    names = [one.path for one in found]
    if names != sorted(set(names)):
        raise InvalidValue("the files are not in the order of their names", param="files", fix=_AGAIN)
    if not any(name.endswith(".safetensors") for name in names):
        raise InvalidValue("the list has no safetensors file", param="files", fix="Offer the model in that format.")
    return found


def _file(line: str) -> WeightFile:
    found = _LINE.fullmatch(line)
    if found is None or ".." in found[2]:
        raise InvalidValue(f"{line[:120]!r} is not a line of sha256sum", param="files", fix=_AGAIN)
    if found[2].rpartition(".")[2].lower() in _CODE:
        raise InvalidValue(
            f"{found[2]}: files that can run code are never loaded", param="files",
            fix="Take it out of the folder; the list and the model's digest are then others.",
        )  # fmt: skip
    return WeightFile(found[2], found[1])
