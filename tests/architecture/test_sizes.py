"""Code stays short enough to read, and errors are caught by name."""

import ast

from tests.architecture import source

MODULE_LINES = 400
FUNCTION_LINES = 60

# The main loops of processes: one failing round must not end the process.
MAIN_LOOPS = {
    "portal/gateway/routes.py",
}


def test_modules_are_at_most_400_lines() -> None:
    long = {
        source.name(path): lines
        for path in source.modules(*source.CODE, "tests")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES
    }

    assert long == {}


def test_functions_are_at_most_60_lines() -> None:
    long = {
        f"{source.name(path)}:{node.lineno} {node.name}": length
        for path in source.modules(*source.CODE, "tests")
        for node in ast.walk(source.tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }

    assert long == {}


def test_broad_excepts_are_in_main_loops_only() -> None:
    found = [
        f"{source.name(path)}:{node.lineno}"
        for path in source.modules(*source.CODE)
        if source.name(path) not in MAIN_LOOPS
        for node in ast.walk(source.tree(path))
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]

    assert found == []


def test_every_exempt_main_loop_exists() -> None:
    assert {path for path in MAIN_LOOPS if not (source.ROOT / path).exists()} == set()


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Tell whether the handler swallows everything; cleaning up and raising again is no swallowing."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id.endswith("Exception")) for kind in kinds)
