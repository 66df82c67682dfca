"""Builds the stand-in for libnvidia-ml and writes scenarios for it."""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stub.c")
PROFILES = Path(__file__).with_name("profiles")
_ON, _FILE = "# on ", "# file "


def compiler() -> str | None:
    """The C compiler, or None."""
    return shutil.which("gcc") or shutil.which("cc")


def build(folder: Path) -> Path:
    """Compile the library into `folder`."""
    library = folder / "libnvidia-ml.so.1"
    argv = [
        compiler() or "cc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libnvidia-ml.so.1",
    ]
    subprocess.run([*argv, "-o", str(library), str(SOURCE)], check=True, capture_output=True, timeout=60)
    return library


def names() -> list[str]:
    """Every profile."""
    return sorted(file.stem for file in PROFILES.glob("*.txt"))


def lines(profile: str) -> list[str]:
    """The lines of a profile, those of the one it stands on first: the last line of a key wins."""
    own = (PROFILES / f"{profile}.txt").read_text(encoding="ascii").splitlines()
    below = [line.removeprefix(_ON).strip() for line in own if line.startswith(_ON)]
    return [*(lines(below[0]) if below else []), *own]


class Scenario:
    """The file that the library reads on every call, and the root of the machine it stands for."""

    def __init__(self, path: Path, profile: str = "rtx4090x2") -> None:
        self.path = path
        self.root = path.parent / "root"
        self.root.mkdir(exist_ok=True)
        self.use(profile)

    def use(self, profile: str) -> None:
        """Become another machine."""
        found = lines(profile)
        self.path.write_text("\n".join(found) + "\n", encoding="ascii")
        for line in found:
            if line.startswith(_FILE):
                name, _, content = line.removeprefix(_FILE).partition("=")
                file = self.root / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content + "\n", encoding="ascii")

    def add(self, *more: str) -> None:
        """Append lines; the last one for a key wins."""
        with self.path.open("a", encoding="ascii") as handle:
            handle.write("\n".join(more) + "\n")
