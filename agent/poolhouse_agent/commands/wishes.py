"""`drain`, `resume` and `leave`: what the owner wants of the node."""

import argparse
import asyncio
import os
import time

from poolhouse_agent import config, runtime, terminal
from poolhouse_agent.commands import options, rulebook
from poolhouse_agent.errors import AgentError, ConfigError, cause_of
from poolhouse_agent.owner import book
from poolhouse_agent.owner.book import Book
from poolhouse_agent.owner.standing import Action
from poolhouse_agent.state import State, Wish

_WORDS = {
    "drain": (Wish.DRAIN, "take no new requests; running ones end", "draining"),
    "resume": (Wish.SERVE, "end a pause or a drain: take requests again", "serving again"),
    "leave": (Wish.LEAVE, "drain, tell the pool, and forget it", "left the pool"),
}
_LEAVE_S = 120.0
_POLL_S = 0.3


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    for word, (wish, text, _) in _WORDS.items():
        parser = commands.add_parser(word, help=text)
        options.add_json(parser)
        parser.set_defaults(run=run, word=word, wish=wish)


def run(arguments: argparse.Namespace) -> int:
    """Note the wish; a running agent hears it within a second. Raises ConfigError."""
    state = State(arguments.state)
    if state.membership() is None:
        raise ConfigError("not_joined", f"{state.folder} knows of no pool")
    state.store_wish(arguments.wish)
    if arguments.wish is Wish.SERVE:
        _end_pause(state)
    is_running = state.is_running()
    if arguments.wish is Wish.LEAVE:
        _leave(state, arguments, is_running=is_running)
    result = {"wish": arguments.wish.value, "is_running": is_running}
    if arguments.json:
        terminal.say_json(result)
    else:
        terminal.say(_WORDS[arguments.word][2] + ("" if is_running else " (the agent does not run now)"))
        if arguments.wish is Wish.SERVE:
            _say_rest(arguments)
    return 0


def _end_pause(state: State) -> None:
    """Forget the owner's pause; the schedule and the limits stand."""
    found = book.load(state)
    if found.pause is not None:
        book.store(state, Book(found.set))


def _say_rest(arguments: argparse.Namespace) -> None:
    """Say where the schedule keeps the machine from serving now."""
    found = rulebook.opened(arguments)
    stands = found.standing()
    if stands.action is Action.REST:
        until = rulebook.told_until(stands, found.rules)
        terminal.say(f"but it rests{until}: {cause_of(stands.code)}")


def _leave(state: State, arguments: argparse.Namespace, *, is_running: bool) -> None:
    """Wait for the running agent to leave, or tell the pool from here."""
    if not is_running:
        settings = config.load(arguments.config, environ=os.environ)
        with state.running():
            asyncio.run(_tell(state, settings))
        return
    deadline = time.monotonic() + _LEAVE_S
    while state.membership() is not None:
        if time.monotonic() > deadline:
            raise AgentError("portal_timeout", "the pool has not heard of it yet; the agent keeps trying")
        time.sleep(_POLL_S)


async def _tell(state: State, settings: config.Config) -> None:
    async with runtime.assembled(state, settings) as agent:
        try:
            async with asyncio.timeout(_LEAVE_S):
                await agent.run()
        except TimeoutError:
            raise agent.heart.last_error or AgentError("portal_timeout", "the pool has not heard of it") from None
