"""The table of calls: which method and path, which parameter type, which function answers."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.store import Store

LARGEST_PAGE = 100
USUAL_PAGE = 10


@dataclass(frozen=True, slots=True)
class Call:
    """One request, decoded and checked."""

    store: Store
    base: str
    path: str
    names: tuple[str, ...]
    params: Body
    account: str
    is_live: bool
    key: str = ""
    request_id: str = ""
    page_token: str = ""

    def text(self, *path: str, default: str = "") -> str:
        """Return a text parameter."""
        value = self._at(path)
        return value if isinstance(value, str) else default

    def number(self, *path: str, default: int | None = None) -> int:
        """Return a whole-number parameter. Raises Refusal."""
        value = self._at(path)
        if isinstance(value, int):
            return value
        if default is None:
            raise invalid(f"Missing required param: {path[-1]}.", param=path[-1], code="parameter_missing")
        return default

    def mapping(self, *path: str) -> Body:
        """Return an object parameter, empty where absent."""
        value = self._at(path)
        return cast("Body", value) if isinstance(value, dict) else {}

    def items(self, *path: str) -> list[Body]:
        """Return a list parameter, empty where absent."""
        value = self._at(path)
        return cast("list[Body]", value) if isinstance(value, list) else []

    def _at(self, path: tuple[str, ...]) -> object:
        value: object = self.params
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value


Handler = Callable[[Call], Body]


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the table."""

    method: str
    template: str
    params: type
    handler: Handler
    pattern: "re.Pattern[str]" = field(repr=False)

    @property
    def is_v2(self) -> bool:
        """Tell whether the call speaks JSON."""
        return self.template.startswith("/v2/")


ROUTES: list[Route] = []


def route(method: str, template: str, params: type) -> Callable[[Handler], Handler]:
    """Put the function into the table."""

    def register(handler: Handler) -> Handler:
        pattern = re.compile(re.sub(r"\{\w+\}", "([^/]+)", template) + r"\Z")
        ROUTES.append(Route(method, template, params, handler, pattern))
        return handler

    return register


def resolve(method: str, path: str) -> tuple[Route, tuple[str, ...]]:
    """Return the call and the ids in its path. Raises Refusal."""
    for known in ROUTES:
        found = known.pattern.match(path)
        if found and known.method == method:
            return known, found.groups()
    raise Refusal(404, "", f"Unrecognized request URL ({method}: {path}).", is_stored=False)


def page(call: Call, found: list[Body]) -> Body:
    """Return a v1 list: newest first, after `starting_after`, at most `limit`."""
    limit = call.number("limit", default=USUAL_PAGE)
    if not 1 <= limit <= LARGEST_PAGE:
        raise invalid("Invalid integer: limit must be 1 to 100", param="limit")
    after = call.text("starting_after")
    if after:
        places = [index for index, body in enumerate(found) if body["id"] == after]
        found = found[places[0] + 1 :] if places else []
    return {"object": "list", "url": call.path, "has_more": len(found) > limit, "data": found[:limit]}


_BOUNDS: dict[str, Callable[[int, int], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def created_within(call: Call, found: list[Body]) -> list[Body]:
    """Keep what was created within the `created` filter (v1: seconds)."""
    for name, bound in call.mapping("created").items():
        if isinstance(bound, int):
            found = [body for body in found if _BOUNDS[name](cast("int", body["created"]), bound)]
    return found


def matching(call: Call, found: list[Body], *names: str) -> list[Body]:
    """Keep what has the values that the parameters of these names ask for."""
    for name in names:
        wanted = call.text(name)
        if wanted:
            found = [body for body in found if body[name] == wanted]
    return found


def expanded(store: Store, body: Body, paths: list[object]) -> Body:
    """Replace ids by their objects along each path, as `expand` asks."""
    for path in paths:
        body = cast("Body", _expand(store, body, str(path).split(".")))
    return body


def _expand(store: Store, value: object, steps: list[str]) -> object:
    if isinstance(value, list):
        return [_expand(store, item, steps) for item in value]
    if isinstance(value, str):
        value = store.find(value) or value
    if not steps or not isinstance(value, dict):
        return value
    head, rest = steps[0], steps[1:]
    if head not in value:
        raise invalid(f"This property cannot be expanded ({head}).", param="expand")
    inner = value[head]
    if isinstance(inner, str):
        inner = store.find(inner) or inner
    return {**value, head: _expand(store, inner, rest) if rest else inner}
