"""The pool that a fleet is tried on: every process of the demo's supervisor, without its nodes, on two cores."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from portal.sandbox import demo, demo_offers, processes
from portal.sandbox.ground import Ground
from portal.sandbox.supervisor import Stack

CORES = 2
_STEP_S = 600.0
# How many processes uvicorn starts for the portal; contrib/systemd/poolhouse-portal.service says the same.
_AS_THE_UNIT = {"WEB_CONCURRENCY": "2"}


@contextmanager
def running(folder: Path) -> Iterator[Stack]:
    """Run the pool, and tell this process's Django where it is."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    ground = Ground(folder)
    ground.claim()
    stack = Stack(ground, port=processes.free_port(), settings=demo.SETTINGS | _AS_THE_UNIT)
    try:
        stack.start()
        os.environ.update(stack.environ)
        import django

        django.setup()
        yield stack
    finally:
        stack.stop()
        ground.release()


def offer(stack: Stack, names: list[str]) -> dict[str, Any]:
    """Make provider, model and an enrolment token for each node; return `provider` and `tokens`."""
    world = _step(stack, "seed", {"public_url": stack.public_url})
    given = {
        "operator": world["logins"]["operator"]["email"],
        "is_house": False,
        "is_external": False,
        "provider": world["provider"],
        "offers": [demo_offers.simulated().as_json()],
        "nodes": names,
    }
    return _step(stack, "offer", given)


def deploy(stack: Stack, provider: str, names: list[str]) -> int:
    """Tell every node of the fleet to serve the model; return how many deployments there are."""
    given = {
        "provider": provider,
        "nodes": names,
        "engine": "simulate",
        "max_concurrency": 8,
        "models": {demo_offers.simulated().model: {"tokens_per_second": 60}},
    }
    return len(_step(stack, "deploy", given)["deployments"])


def _step(stack: Stack, step: str, given: dict[str, Any]) -> dict[str, Any]:
    said = stack.run(["-m", "portal.sandbox.demo_world", step], stdin=json.dumps(given), timeout_s=_STEP_S)
    made: dict[str, Any] = json.loads(said)
    return made
