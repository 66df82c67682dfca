"""What is queued by name exists: a misspelt task would wait in the broker for ever."""

import ast
from collections.abc import Iterator

from portal.beat import room_schedules
from portal.celery import app
from tests.architecture import source


def known_tasks() -> set[str]:
    """Return the names of every registered task."""
    app.loader.import_default_modules()
    return set(app.tasks)


def queued_names() -> Iterator[tuple[str, str]]:
    """Yield (place, task name) of every call of `after_commit` and `send_task` with a literal name."""
    for path in source.modules("portal"):
        for node in ast.walk(source.tree(path)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if called in {"after_commit", "send_task"} and isinstance(first, ast.Constant):
                yield f"{source.name(path)}:{node.lineno}", str(first.value)


def test_queued_tasks_exist() -> None:
    known = known_tasks()

    assert [(place, task) for place, task in queued_names() if task not in known] == []


def test_scheduled_tasks_exist() -> None:
    known = known_tasks()

    assert [task for task, _ in room_schedules() if task not in known] == []


def test_tasks_are_named_by_room_and_acknowledged_late() -> None:
    ours = {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}
    misnamed = [name for name, task in ours.items() if not task.__module__.startswith(f"portal.{name.split('.')[0]}.")]

    assert misnamed == []
    assert [name for name, task in ours.items() if not task.acks_late] == []
