"""Builds the stand-in for libnvidia-ml and writes scenarios for it."""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stub.c")
RTX4090X2 = Path(__file__).with_name("rtx4090x2.txt").read_text(encoding="ascii")


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


class Scenario:
    """The file that the library reads on every call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_text(RTX4090X2, encoding="ascii")

    def add(self, *lines: str) -> None:
        """Append lines; the last one for a key wins."""
        with self.path.open("a", encoding="ascii") as handle:
            handle.write("\n".join(lines) + "\n")
