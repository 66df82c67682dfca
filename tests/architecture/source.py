"""Where the project's own Python lies."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("portal", "agent/poolhouse_agent", "agent/poolhouse_common")


def modules(*folders: str) -> Iterator[Path]:
    """Yield every Python file below the folders but migrations, in a stable order."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def tree(path: Path) -> ast.Module:
    """Parse one file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name(path: Path) -> str:
    """Return the path as people write it."""
    return str(path.relative_to(ROOT))
