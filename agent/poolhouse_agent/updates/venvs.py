"""One venv a version, side by side; a link says which is in use, another whose code does the updating."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from poolhouse_agent.errors import UpdateError
from poolhouse_agent.installation import Installation
from poolhouse_agent.updates.fetching import Release

_BUILD_S = 1800
_WORDS = 300
_COMPLETE = ".complete"
_QUIETLY = ("--disable-pip-version-check", "--no-input", "--quiet")


def build(installed: Installation, release: Release) -> Path:
    """Install the release beside the others; return its venv. Raises UpdateError `release_not_built`."""
    venv = installed.venv(release.manifest.version, release.manifest.wheel.sha256)
    if _is_complete(venv, release):
        return venv
    shutil.rmtree(venv, ignore_errors=True)
    try:
        _fill(venv, release)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(venv, ignore_errors=True)
        raise UpdateError("release_not_built", _last_words(error)) from None
    (venv / _COMPLETE).write_text(release.manifest.wheel.sha256 + "\n", encoding="ascii")
    return venv


def switch(link: Path, venv: Path) -> None:
    """Point the link to the venv, at once: whoever follows it sees the old one or the new one."""
    temporary = link.with_name(f".{link.name}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(venv.relative_to(link.parent))
    temporary.replace(link)


def prune(installed: Installation, *, keep: set[Path]) -> None:
    """Remove the venvs that nobody will go back to."""
    kept = {path.name for path in keep}
    for venv in installed.versions.iterdir():
        if venv.name not in kept:
            shutil.rmtree(venv, ignore_errors=True)


def _is_complete(venv: Path, release: Release) -> bool:
    try:
        return (venv / _COMPLETE).read_text(encoding="ascii").strip() == release.manifest.wheel.sha256
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _fill(venv: Path, release: Release) -> None:
    """Make the venv and prove that the program in it starts. Raises OSError, SubprocessError."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    _call(sys.executable, "-m", "venv", "--without-pip", str(venv))  # the release brings its own, pinned like the rest
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), *_QUIETLY, "install"]
    with tempfile.TemporaryDirectory(prefix="poolhouse-") as folder:
        wheel, requirements = Path(folder) / release.manifest.wheel.name, Path(folder) / "requirements.txt"
        wheel.write_bytes(release.wheel)
        requirements.write_bytes(release.requirements)
        _call(*pip, "--no-cache-dir", "--require-hashes", "--only-binary", ":all:", "-r", str(requirements))
        _call(*pip, "--no-cache-dir", "--no-deps", "--no-index", str(wheel))
    said = _call(str(venv / "bin" / "poolhouse-agent"), "--version")
    if release.manifest.version not in said.split():
        raise subprocess.SubprocessError(f"the new program calls itself {said.strip()[:60]}")


def _call(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=_BUILD_S)  # noqa: S603  our own words
    return done.stdout


def _last_words(error: OSError | subprocess.SubprocessError) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return (said or str(error)).strip()[-_WORDS:]
