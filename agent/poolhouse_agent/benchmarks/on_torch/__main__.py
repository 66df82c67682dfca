"""Loads this folder as a package by its path: the agent is not installed in the engine's Python."""

import importlib
import importlib.util
import sys
from pathlib import Path

_NAME = "poolhouse_on_torch"


def _load() -> None:
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} cannot be loaded")
    sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[_NAME])


if __name__ == "__main__":
    _load()
    sys.exit(importlib.import_module(f"{_NAME}.program").main())
