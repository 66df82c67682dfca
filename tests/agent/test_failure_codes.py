"""Every code that the agent can say is in the shared catalogue, with a cause and a fix."""

import ast
from collections.abc import Iterator
from pathlib import Path

import poolhouse_agent
from poolhouse_common import failures

FOLDER = Path(poolhouse_agent.__file__).parent
RAISED = {"AgentError", "ConfigError", "PortalError", "RequestRefused", "EngineError"}


def codes() -> Iterator[tuple[str, str]]:
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and node.args:
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                place = 0 if called in RAISED else 2 if called == "trouble" else None
                if called == "_failed" and path.name == "inventory.py":
                    place = 0
                if place is None or len(node.args) <= place or not isinstance(node.args[place], ast.Constant):
                    continue
                if code := node.args[place].value:
                    yield str(code), path.name


def test_every_code_has_a_cause_and_a_fix() -> None:
    found = dict(codes())

    assert len(found) > 30
    unknown = {code: place for code, place in found.items() if failures.find(code) is None}
    assert unknown == {}


def test_every_code_of_the_logs_and_of_nvml_is_known() -> None:
    from poolhouse_agent.engine import deployment, gpus, vllm_log
    from poolhouse_agent.nvml import child, fields

    named = {code for code, _ in vllm_log._CAUSES} | deployment._LASTING | gpus._UNFIT
    named |= set(fields.REASONS.values()) | set(child._START_CODES.values())

    assert {code for code in named if failures.find(code) is None} == set()
