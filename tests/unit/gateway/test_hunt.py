"""One owner of retries: who is asked next, when nobody else is, and who is blamed in the end."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from portal.gateway import failures
from portal.gateway.breaker import Verdict
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import NodeEntry
from portal.gateway.failures import Ending, NodeFailed
from portal.gateway.hunt import MAX_ATTEMPTS, Hunt
from portal.gateway.load import Ticket
from portal.gateway.retry_budget import RetryBudget
from portal.gateway.routing import Choice, Router
from portal.gateway.waiting import Waiting
from tests.factories.gateway import key_entry, model_entry, node_entry, price_entry, snapshot
from tests.fakes.customer import Customer

SERVER_ERROR = failures.from_engine(500, b"")
REFUSED = failures.from_engine(400, b'{"error": {"message": "no"}}')
TOO_LONG = failures.from_engine(400, b'{"error": {"message": "maximum context length is 512"}}')
NODES = [node_entry(id=number) for number in range(1, 6)]


class _Tunnels:
    def local(self, node_id: int) -> None:
        return None

    def is_reachable(self, node: NodeEntry) -> bool:
        return True


class _Pool:
    """A pool whose clock the test moves."""

    def __init__(self, *nodes: NodeEntry, floor: int = 10) -> None:
        self.now = 1_000.0
        chance = random.Random(7)  # noqa: S311  a seed makes the test repeatable
        self.router = Router(tunnels=_Tunnels(), clock=self.clock, chance=chance)
        self.waiting = Waiting(self.router)
        self.retries = RetryBudget(self.clock, floor=floor)
        self.snapshot = snapshot(*nodes)
        self.waiting.renew(self.snapshot)

    def clock(self) -> float:
        return self.now

    def hunt(self, *, body: dict[str, Any] | None = None, prompt_bound: int = 50, output: int = 100) -> Hunt:
        facts = SimpleNamespace(
            key=key_entry(),
            model=model_entry(),
            price=price_entry(),
            opened_at=0.0,
            body=body or {"messages": []},
            prompt_bound_tokens=prompt_bound,
        )
        asked = SimpleNamespace(has_tools=False, choices=1, output_tokens=output)
        call = SimpleNamespace(facts=facts, asked=asked, exchange=Customer().exchange, affinity=None, is_session=False)
        return Hunt(
            call,  # type: ignore[arg-type]  the parts of a call that a hunt looks at
            router=self.router,
            waiting=self.waiting,
            retries=self.retries,
            snapshot=self.snapshot,
            clock=self.clock,
        )


def _fail(hunt: Hunt, choice: Choice, failure: NodeFailed, *, at: float = 1_000.0, has_delivered: bool = False) -> str:
    stopped_by = hunt.note_failure(failure, choice, has_delivered=has_delivered)
    choice.ticket.leave(failure.verdict, at, backoff_s=failure.backoff_s)
    return stopped_by


async def test_three_attempts_on_three_nodes_are_the_most() -> None:  # litellm#34129
    pool = _Pool(*NODES)
    hunt = pool.hunt()
    asked: list[int] = []
    stops: list[str] = []
    while not hunt.is_over:
        choice = await hunt.next()
        asked.append(choice.node.id)
        stops.append(_fail(hunt, choice, SERVER_ERROR))

    assert (len(set(asked)), hunt.number, stops) == (MAX_ATTEMPTS, MAX_ATTEMPTS, ["", "", "attempts"])


async def test_retries_do_not_multiply_and_say_so_where_the_budget_ends() -> None:  # code_puppy#317
    pool = _Pool(*NODES, floor=4)
    stops: list[str] = []
    attempts = 0
    for _ in range(15):
        hunt = pool.hunt()
        while not hunt.is_over:
            choice = await hunt.next()
            attempts += 1
            stops.append(hunt.note_failure(REFUSED, choice, has_delivered=False))
            choice.ticket.leave(REFUSED.verdict, pool.now)

    assert attempts == 15 + 4
    assert stops.count("budget") == 13


async def test_nothing_is_replayed_once_text_was_delivered() -> None:  # bifrost#5395, litellm#32835, litellm#38610
    hunt = _Pool(*NODES).hunt()

    stopped_by = _fail(hunt, await hunt.next(), SERVER_ERROR, has_delivered=True)

    assert (hunt.is_over, stopped_by) == (True, "")


async def test_no_attempt_begins_after_the_deadline() -> None:
    pool = _Pool(*NODES)
    hunt = pool.hunt()
    choice = await hunt.next()

    pool.now += model_entry().first_token_timeout_s + 6

    assert _fail(hunt, choice, failures.silent("first_token")) == "deadline"
    assert hunt.is_over


async def test_a_schema_that_does_not_compile_is_the_customers_at_once() -> None:
    hunt = _Pool(*NODES).hunt(body={"messages": [], "response_format": {"type": "json_schema"}})

    _fail(hunt, await hunt.next(), REFUSED)

    assert hunt.is_over
    assert hunt.number == 1


async def test_a_refusal_of_a_plain_request_is_one_word_against_ours() -> None:
    pool = _Pool(*NODES)
    for _ in range(5):
        hunt = pool.hunt()
        first = await hunt.next()
        while first.node.id != 1:
            first.ticket.leave(SERVER_ERROR.verdict, 0.0)
            hunt = pool.hunt()
            first = await hunt.next()
        _fail(hunt, first, REFUSED)
        assert not hunt.is_over
        second = await hunt.next()
        assert second.node.id != 1
        hunt.served()
        second.ticket.leave(Verdict.SUCCESS, pool.now)

    assert pool.router.load(1).breaker.blocks(pool.now) == "breaker"


async def test_whoever_is_not_contradicted_is_not_blamed() -> None:
    pool = _Pool(*NODES[:2])
    for _ in range(20):
        hunt = pool.hunt()
        while not hunt.is_over:
            try:
                choice = await hunt.next()
            except NoCapacity:
                break
            _fail(hunt, choice, REFUSED)

    assert pool.router.load(1).breaker.is_closed
    assert pool.router.load(2).breaker.is_closed


@pytest.mark.parametrize(("prompt_bound", "is_over"), [(50, False), (4_000, True)])
async def test_too_long_is_believed_where_our_own_bound_does_not_rule_it_out(prompt_bound: int, is_over: bool) -> None:
    hunt = _Pool(*NODES).hunt(prompt_bound=prompt_bound)

    _fail(hunt, await hunt.next(), TOO_LONG)

    assert hunt.is_over is is_over


async def test_a_busy_node_may_be_asked_again_when_its_time_is_over() -> None:
    pool = _Pool(node_entry(id=1))
    hunt = pool.hunt()
    _fail(hunt, await hunt.next(), failures.from_engine(503, b"", retry_after_s=0.02), at=pool.now)
    pool.now += 0.02

    again = await hunt.next()

    assert (again.node.id, hunt.number) == (1, 2)


async def test_a_retry_without_a_node_costs_no_budget() -> None:
    pool = _Pool(node_entry(id=1), floor=1)
    for _ in range(5):
        hunt = pool.hunt()
        choice = await hunt.next()
        assert _fail(hunt, choice, failures.empty(Ending())) == ""
        with pytest.raises(NoCapacity):
            await hunt.next()


async def test_a_request_is_one_request_whatever_its_attempts() -> None:  # litellm#39455
    hunt = _Pool(*NODES).hunt()
    numbers = []
    while not hunt.is_over:
        choice = await hunt.next()
        numbers.append(hunt.number)
        _fail(hunt, choice, SERVER_ERROR)

    assert numbers == [1, 2, 3]
    assert isinstance(choice.ticket, Ticket)
