"""A broker may lose what was enqueued: each task that is enqueued has a periodic one that finds its work again."""

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import portal
from portal.beat import room_schedules
from portal.celery import app

ROOT = Path(portal.__file__).parent

# Who finds the work of each enqueued task again, should its message be lost. Add a line with each new task.
FOUND_BY = {
    "billing.charge_auto_topup": "billing.sweep_topups",
    "billing.forget_card": "billing.sweep_cards",
    "billing.fulfil_topup": "billing.sweep_topups",
    "billing.judge_customer": "billing.judge_customers",
    "billing.open_confirmation": "billing.sweep_topups",
    "billing.read_refunds": "billing.sweep_refunds",
    "billing.release_held": "billing.sweep_held",
    "billing.send_refund": "billing.sweep_refunds",
    "billing.watch_credit": "billing.sweep_credit",
    "notifications.deliver_message": "notifications.deliver_due",
    "payouts.send_payout": "payouts.run",
    "payouts.send_reversal": "payouts.sweep_reversals",
    "webhooks.handle_event": "webhooks.handle_due",
}


def enqueued() -> Iterator[tuple[str, str]]:
    """Yield each task that is enqueued after a commit, and where."""
    for file in ROOT.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "after_commit" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "after_commit":
                first = node.args[0] if node.args else None
                name = str(first.value) if isinstance(first, ast.Constant) else ast.unparse(node)
                yield name, f"{file.relative_to(ROOT)}:{node.lineno}"


def test_every_enqueued_task_has_somebody_who_finds_its_work_again() -> None:
    found = dict(enqueued())

    assert len(found) > 5
    assert {name: place for name, place in found.items() if name not in FOUND_BY} == {}
    assert sorted(set(FOUND_BY) - set(found)) == []


def test_the_finders_run() -> None:
    periodic = dict(room_schedules())

    assert {name: finder for name, finder in FOUND_BY.items() if finder not in periodic} == {}
    assert {finder: periodic[finder] for finder in FOUND_BY.values() if periodic[finder] > 3_600} == {}


def test_what_needs_no_argument_runs_by_itself() -> None:
    """A task that names no row is periodic work; one that is missing from the schedule would never run."""
    periodic = dict(room_schedules())
    alone = {name for name, task in app.tasks.items() if not name.startswith("celery.") and takes_nothing(task.run)}

    assert len(alone) > 20
    assert sorted(alone - set(periodic)) == []


def takes_nothing(work: Callable[..., object]) -> bool:
    """Tell whether a task has no parameter but the catch-all of messages from other versions."""
    return all(each.kind is each.VAR_KEYWORD for each in inspect.signature(work).parameters.values())
