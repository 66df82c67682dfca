"""Proves, by probing, how many bytes a template adds to plain text messages, so that admission need not render them.

Proven means: no probe's rendering is longer than its content bytes + messages · message_bytes + request_bytes. Probes
cover every order of roles up to four messages, longer talks, and contents that templates treat specially, among them
every text that the template itself mentions. Where the growth depends on the content there is no proof, and the
gateway renders each request.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Template, nodes

from portal.catalog.rules import bounded_jinja
from portal.catalog.rules.rendering import (
    RenderingRefused,
    RenderingTooCostly,
    TemplateInvalid,
    compile_template,
    render_chat,
)

_ROLES = ("system", "user", "assistant")
_CONTENTS = ("", "x", " x ", "\n\n", "é" * 40, "😀" * 200, '"\\\n\t' * 200, "<think>a</think>b" * 50, "<b>&amp;'" * 90)
_LONG = "lorem ipsum " * 700
_PATTERNS = (("user", "assistant"), ("user",), ("assistant", "user"), ("system",))
_EVEN_LENGTHS = (8, 24, 40, 56)
_MOST_LITERALS = 200
_MOST_NUMBERS = 16
_MOST_MESSAGES = 64
_REPEATS = 40


@dataclass(frozen=True, slots=True)
class Overheads:
    """Bytes a template adds: for each message and once a request."""

    message_bytes: int
    request_bytes: int


@dataclass(frozen=True, slots=True)
class _Talk:
    roles: tuple[str, ...]
    content: str

    def messages(self) -> list[Mapping[str, object]]:
        return [{"role": role, "content": self.content} for role in self.roles]

    def content_bytes(self) -> int:
        return len(self.content.encode()) * len(self.roles)


def prove(text: str, *, extra: Mapping[str, object] | None = None) -> Overheads | None:
    """Return the overheads of the template `text`, or None where no constant bounds them. Raises TemplateInvalid."""
    template = compile_template(text)
    literals, lengths = _mentioned(text)
    if not all(_grows_evenly(template, roles, extra) for roles in _PATTERNS):
        return None
    orders = list(dict.fromkeys(_orders(lengths)))
    plain = {roles: _added(template, _Talk(roles, "x"), extra) for roles in orders}
    known = {roles: added for roles, added in plain.items() if added is not None}
    if not known:
        return None
    message = max(0, *_increments(known))
    request = max(0, *(added - message * len(roles) for roles, added in known.items()))
    contents = [*_CONTENTS, _LONG, *(literal * times for literal in literals for times in (1, _REPEATS))]
    for roles in known:
        checked = contents if len(roles) <= 2 else contents[:: max(1, len(contents) // 12)]  # noqa: PLR2004
        for content in checked:
            added = _added(template, _Talk(roles, content), extra)
            if added is not None and added > message * len(roles) + request:
                return None
    return Overheads(message_bytes=message, request_bytes=request)


def _added(template: Template, talk: _Talk, extra: Mapping[str, object] | None) -> int | None:
    """Return the bytes that the template adds, None where it refuses the talk."""
    try:
        rendered = render_chat(template, messages=talk.messages(), extra=extra)
    except RenderingTooCostly as error:
        raise TemplateInvalid(f"{error.message}: it takes too much time or memory", param="chat_template") from error
    except RenderingRefused:
        return None
    return len(rendered.encode()) - talk.content_bytes()


def _grows_evenly(template: Template, pattern: tuple[str, ...], extra: Mapping[str, object] | None) -> bool:
    """Tell whether later messages cost no more than earlier ones; a template may loop in a loop."""
    sizes = [_added(template, _Talk(_repeated(pattern, length), "x"), extra) for length in _EVEN_LENGTHS]
    steps = [after - before for before, after in itertools.pairwise(sizes) if before is not None and after is not None]
    return all(after <= before for before, after in itertools.pairwise(steps))


def _orders(lengths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    for length in range(1, 5):
        yield from itertools.product(_ROLES, repeat=length)
    for length in (8, 20, *lengths):
        for pattern in _PATTERNS:
            yield _repeated(pattern, length)
            yield ("system", *_repeated(pattern, length - 1))


def _repeated(pattern: tuple[str, ...], length: int) -> tuple[str, ...]:
    return tuple(itertools.islice(itertools.cycle(pattern), length))


def _increments(known: Mapping[tuple[str, ...], int]) -> Iterator[int]:
    """Yield what one more message adds, and the mean a message of each order."""
    for roles, added in known.items():
        shorter = known.get(roles[:-1])
        if shorter is not None:
            yield added - shorter
        yield -(-added // len(roles)) if len(roles) > 4 else 0  # noqa: PLR2004  short orders hold the request's part


def _mentioned(text: str) -> tuple[list[str], list[int]]:
    """Return the texts the template mentions and the lengths of talk that its numbers make worth trying."""
    tree = bounded_jinja.parse_source(text)
    constants = [node.value for node in tree.find_all(nodes.Const)]
    texts = {value for value in constants if isinstance(value, str) and value}
    numbers = sorted({value for value in constants if type(value) is int and 1 < value <= _MOST_MESSAGES})
    lengths = {length for number in numbers[:_MOST_NUMBERS] for length in (number, number + 1, number + 2)}
    return sorted(texts, key=lambda value: (len(value), value))[:_MOST_LITERALS], sorted(lengths)
