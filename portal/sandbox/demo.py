"""The demo: builds a pool in a folder, sends a request through it, and either stays up or settles and ends."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from portal.sandbox import demo_nodes, demo_offers, demo_requests, processes, waiting
from portal.sandbox.child import ChildDied
from portal.sandbox.demo_nodes import Plan
from portal.sandbox.ground import AlreadyRunning, Ground
from portal.sandbox.servers import ServerDidNotStart
from portal.sandbox.supervisor import Stack
from portal.sandbox.surroundings import ROOT, CommandFailed

FOLDER = ROOT / ".demo"
PROMPT = "Explain in three sentences why a pool of GPUs needs honest meters."
SETTINGS = {
    "PAYOUT_HOLD_DAYS": "0", "PAYOUT_RESERVE_DAYS": "0", "PAYOUT_MINIMUM_MINOR": "1", "PAYOUT_SCHEDULE": "manual",
    "CUSTOMER_NEW_HOLD_DAYS": "0", "CUSTOMER_KNOWN_HOLD_DAYS": "0", "TOPUP_FIRST_CAP_MINOR": "0",
    "POOL_NAME": "Poolhouse demo", "CURRENCY": "usd",
}  # fmt: skip
_SEED_S = 120.0
_SETTLE_S = 100.0
_TEND_S = 0.2


class AlreadyElsewhere(RuntimeError):
    """The folder's demo belongs to another port."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for; `engine` is simulate, external or vllm."""

    port: int
    folder: Path = FOLDER
    is_once: bool = False
    engine: str = "simulate"
    engine_url: str = ""


_REFUSALS = (
    AlreadyElsewhere, AlreadyRunning, ChildDied, CommandFailed, ServerDidNotStart, demo_requests.RequestFailed,
    demo_offers.EngineMissing, processes.PortTaken, waiting.TookTooLong,
)  # fmt: skip


def run(options: Options) -> int:
    """Run the demo; return the exit code. Everything that was started is stopped before it returns."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _folder(options) as folder, _claimed(folder) as ground:
            plan = demo_nodes.plan(options.engine, options.engine_url)
            return _once(ground, options, plan) if options.is_once else _stay(ground, options, plan)
    except _REFUSALS as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted, everything is stopped", file=sys.stderr)
        return 130


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _folder(options: Options) -> Iterator[Path]:
    if not options.is_once:
        yield options.folder
        return
    with tempfile.TemporaryDirectory(prefix="poolhouse-once-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _claimed(folder: Path) -> Iterator[Ground]:
    ground = Ground(folder)
    ground.claim()
    try:
        yield ground
    finally:
        ground.release()


@contextmanager
def _running(stack: Stack) -> Iterator[Stack]:
    try:
        _say(f"starting PostgreSQL, Valkey, the Stripe stand-in, portal, gateways, worker and beat in {stack.folder}")
        stack.start()
        yield stack
    finally:
        _ignore_interrupts()
        _say("stopping everything")
        stack.stop()


def _ignore_interrupts() -> None:
    """A second Ctrl-C while everything is being stopped must not leave half of it behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _say(text: str) -> None:
    """Tell whoever watches how far it is; standard output belongs to the result."""
    print(f"demo: {text}", file=sys.stderr, flush=True)


def _once(ground: Ground, options: Options, plan: Plan) -> int:
    port = options.port if processes.is_free(options.port) else processes.free_port()
    with _running(Stack(ground, port=port, settings=SETTINGS)) as stack:
        world = _populate(stack, plan)
        call = {"gateway_url": stack.gateway_url, "key": world["api_key"], "model": world["model"], "prompt": PROMPT}
        _say("sending a streamed and a plain request")
        streamed = demo_requests.streamed(**call, max_tokens=60)
        plain = demo_requests.plain(**call, max_tokens=60)
        stack.require_all_alive()
        given = {
            "requests": 2,
            "customer": world["customer"],
            "provider": world["provider"],
            "operator": world["logins"]["operator"]["email"],
            "stripe_url": stack.stripe_url,
            "is_paid": not plan.is_house,
        }
        _say("settling, maturing and paying out")
        result = json.loads(
            stack.run(["-m", "portal.sandbox.demo_settle"], stdin=json.dumps(given), timeout_s=_SETTLE_S)
        )
        stack.require_all_alive()
    print(json.dumps(result), flush=True)
    wrong = _wrong(result, [streamed, plain], is_house=plan.is_house)
    for reason in wrong:
        print(f"demo: {reason}", file=sys.stderr)
    return 1 if wrong else 0


def _wrong(result: dict[str, Any], answers: list[demo_requests.Answer], *, is_house: bool) -> list[str]:
    """Compare the figures with what the customer was told and with one another; house nodes are not paid."""
    tokens = {name: sum(answer.usage.get(name, 0) for answer in answers) for name in _TOKENS}
    state = "none" if is_house else "transferred"
    expected = {**tokens, "requests": len(answers), "payout_state": state, "ledger_differences": 0}
    wrong = [
        f"{name} is {result[name]!r}, expected {value!r}" for name, value in expected.items() if result[name] != value
    ]
    if result["charged_nano"] != result["provider_earned_nano"] + result["platform_nano"]:
        wrong.append("what was charged is not what was earned and kept")
    if result["payout_minor"] != result["provider_earned_nano"] // _NANO_PER_MINOR:
        wrong.append("the payout is not what was earned")
    if not is_house and not str(result["stripe_transfer"]).startswith("tr_"):
        wrong.append("there is no transfer at Stripe")
    if not all(answer.text.strip() for answer in answers):
        wrong.append("an answer has no text")
    return wrong


_TOKENS = ("prompt_tokens", "completion_tokens")
_NANO_PER_MINOR = 10_000_000


def _stay(ground: Ground, options: Options, plan: Plan) -> int:
    _require_same_address(ground, options.port)
    processes.require_free(options.port, hint="another program listens there; choose one with PORT=…")
    with _running(Stack(ground, port=options.port, settings=SETTINGS)) as stack:
        world = _populate(stack, plan)
        answer = demo_requests.streamed(
            gateway_url=stack.gateway_url, key=world["api_key"], model=world["model"], prompt=PROMPT, max_tokens=60
        )
        stack.run(["-m", "portal.sandbox.demo_agent"], timeout_s=_SEED_S)
        stack.record(world=world)
        _introduce(stack, world, answer)
        _tend(stack)
    return 0


def _require_same_address(ground: Ground, port: int) -> None:
    """The nodes of an earlier run have joined its address and sign for that one alone."""
    before = urlsplit(ground.read("world").get("public_url", "")).port
    if before not in {None, port}:
        raise AlreadyElsewhere(
            f"the demo in {ground.folder} was made for port {before}, and its nodes joined that address: "
            f"run it with PORT={before}, or remove the folder to begin anew"
        )


def _tend(stack: Stack) -> None:
    pause = Event()
    while True:
        for name in stack.tend():
            print(f"demo: {name} had died and runs again", flush=True)
        pause.wait(_TEND_S)


def _populate(stack: Stack, plan: Plan) -> dict[str, Any]:
    """Seed the world (or find it from an earlier run), start its nodes and wait until the model answers."""
    world = stack.ground.read("world")
    if not world:
        _say("making the operator, a provider and a customer with credit")
        world = json.loads(_step(stack, "seed", {"public_url": stack.public_url}))
        stack.ground.write("world", world)
    _say(f"offering {plan.offer.model}, joining and starting {', '.join(plan.names)}")
    to_join = [name for name in plan.names if not demo_nodes.has_joined(stack, name)]
    offered = {
        "offers": [offer.as_json() for offer in plan.offers],
        "nodes": to_join,
        "is_external": plan.engine == "external",
        "is_house": plan.is_house,
        "provider": world["provider"],
        "operator": world["logins"]["operator"]["email"],
    }
    owner = json.loads(_step(stack, "offer", offered))
    for name in plan.names:
        demo_nodes.join(stack, plan, name, token=owner["tokens"].get(name, ""))
    _step(stack, "deploy", {"provider": owner["provider"], **plan.deployment})
    for name in plan.names:
        demo_nodes.start(stack, name)
    _say(f"waiting until {plan.offer.model} is served")
    _wait_until_served(stack, world["api_key"], plan)
    longest = demo_offers.longest_output(plan.offer.context_tokens)
    vectors = plan.vectors.model if plan.vectors else ""
    return world | {
        "model": plan.offer.model,
        "vectors": vectors,
        "longest_output": longest,
        "nodes": list(plan.names),
    }


def _step(stack: Stack, name: str, given: dict[str, Any]) -> str:
    return stack.run(["-m", "portal.sandbox.demo_world", name], stdin=json.dumps(given), timeout_s=_SEED_S)


def _wait_until_served(stack: Stack, key: str, plan: Plan) -> None:
    """Both gateway processes share a port: several answers in a row must say that the model is ready."""
    in_a_row = 0

    def is_served() -> bool:
        nonlocal in_a_row
        is_ready = demo_requests.is_ready(gateway_url=stack.gateway_url, key=key, model=plan.offer.model)
        in_a_row = in_a_row + 1 if is_ready else 0
        return in_a_row >= _ANSWERS_IN_A_ROW

    waiting.until(
        f"{plan.offer.model} is served (see {stack.folder}/logs)",
        is_served,
        timeout_s=plan.ready_s,
        check=stack.require_all_alive,
    )


_ANSWERS_IN_A_ROW = 8


def _introduce(stack: Stack, world: dict[str, Any], answer: demo_requests.Answer) -> None:
    body = json.dumps({"model": world["model"], "stream": True, "messages": [{"role": "user", "content": "Hello"}]})
    print(f"\nThe first paid request was answered: {answer.text.strip()[:200]}")
    print(f"  usage: {json.dumps(answer.usage)}\n")
    print(f"Portal   {stack.public_url}/")
    print(f"Gateway  {stack.gateway_url}/v1")
    print(f"Stripe   {stack.stripe_url}/ (stand-in, no money moves)")
    print(f"Logs     {stack.folder}/logs\n")
    for side, login in world["logins"].items():
        print(f"{side.capitalize():9} {login['email']}  {login['password']}")
    print(f"API key   {world['api_key']}\n")
    print(f"curl -N {stack.gateway_url}/v1/chat/completions \\")
    print(f"  -H 'Authorization: Bearer {world['api_key']}' -H 'Content-Type: application/json' \\")
    print(f"  -d '{body}'\n")
    if world["vectors"]:
        print(f"Vectors: POST {stack.gateway_url}/v1/embeddings with the model {world['vectors']}\n")
    print(f"Running as process {os.getpid()}; stop with Ctrl-C. Break it: make demo-break WHAT=gateway", flush=True)
