"""A Jinja environment for chat templates: sandboxed, immutable, without loader, and bounded in all it can grow.

Every loop round, macro call, filter and test spends steps; every printed value spends characters; operators and
methods that make large values from small ones are checked before they run.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from portal.catalog.rules import allowed
from portal.catalog.rules import budget as budgets
from portal.catalog.rules.budget import TemplateTooExpensive

MAX_RANGE = 10_000
_MAX_INTEGER_BITS = 256


class TemplateRefused(TemplateError):
    """The template itself refuses these messages (`raise_exception`)."""


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRefused(str(message)[:400])


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  templates pass them by position or name
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002  templates pass them by position or name
) -> str:
    if indent is not None and not 0 <= indent <= 8:  # noqa: PLR2004  no template indents by more
        raise TemplateTooExpensive("tojson: indent of more than eight")
    budget = budgets.current()
    budgets.weigh(value, budget)
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_no_json
    )
    budget.step(1 + len(text) // 1024)
    return text


def _no_json(value: object) -> NoReturn:
    raise TemplateRefused(f"{type(value).__name__} cannot be written as JSON")


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}` marks the assistant's words for training; here it only prints them."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """Return the block's body in place of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """See the module's promise. One environment serves all templates; the budget is the rendering's own."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, GenerationBlock],
            optimized=False,
            finalize=_finalize,
        )
        kept = {name: _guarded(function) for name, function in self.filters.items() if name in allowed.FILTERS}
        self.filters = {**kept, "tojson": _tojson, "_concat": _concat, "_step": _step, "_pass": _pass}
        for name in ("lipsum", "cycler", "joiner"):
            self.globals.pop(name, None)
        self.globals["range"] = _range
        self.globals["raise_exception"] = _raise_exception

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _meter(tree)
        tree.set_environment(self)
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow only the string methods that cannot blow a string up."""
        if isinstance(obj, str):
            return attr in allowed.STRING_METHODS
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Refuse str.format: its widths make any length from a few characters."""
        if getattr(value, "__name__", "") in {"format", "format_map"} and isinstance(
            getattr(value, "__self__", None), str
        ):
            return _no_format
        return None

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  Jinja's names
        """Spend a step, and check string methods that grow."""
        budgets.current().step()
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str) and not isinstance(__obj, Macro):
            args = _checked_string_call(owner, getattr(__obj, "__name__", ""), args)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Check the size of the result before it is made."""
        budget = budgets.current()
        budget.step()
        if operator == "+":
            _check_size(_length(left) + _length(right), budget, per_step=_per_step(left))
        elif operator == "*":
            _check_product(left, right, budget)
        elif operator == "**" and not (_is_small(left) and _is_small(right)):
            raise TemplateTooExpensive("a power of large numbers")
        elif operator == "%" and isinstance(left, str):
            _check_percent(left, right, budget)
        return super().call_binop(context, operator, left, right)


def compile_source(text: str) -> Template:
    """Compile a template. Raises jinja2.TemplateError, RecursionError."""
    return _ENVIRONMENT.from_string(text)


def parse_source(text: str) -> nodes.Template:
    """Parse a template that compiles."""
    return _ENVIRONMENT.parse(text)


def strftime_at(now: datetime) -> Callable[[str], str]:
    """Return the `strftime_now` that templates call."""

    def strftime_now(format: str) -> str:  # noqa: A002  the name templates may pass
        if len(format) > 64 or re.search(r"\d", format):  # noqa: PLR2004  a width could make any length
            raise TemplateTooExpensive("strftime_now: the format is too long")
        return now.strftime(format)

    return strftime_now


def _meter(tree: nodes.Template) -> None:
    """Make loop rounds, macro bodies, loop tests and `~` spend from the budget."""
    bodies: list[nodes.For | nodes.Macro | nodes.CallBlock] = [
        *tree.find_all(nodes.For),
        *tree.find_all(nodes.Macro),
        *tree.find_all(nodes.CallBlock),
    ]
    for body in bodies:
        _meter_body(body)
    for parent in list(tree.find_all(nodes.Node)):
        _replace_concat(parent)


def _meter_body(body: nodes.For | nodes.Macro | nodes.CallBlock) -> None:
    weight = 1 + sum(len(text.data) for text in body.find_all(nodes.TemplateData)) // 16
    charge = nodes.Filter(nodes.Const(weight), "_step", [], [], None, None)
    body.body.insert(0, nodes.Output([charge]))
    if isinstance(body, nodes.For) and body.test is not None:
        paid = nodes.Filter(nodes.Const(1), "_pass", [], [], None, None)
        body.test = nodes.And(paid, body.test)


def _replace_concat(parent: nodes.Node) -> None:
    for name, value in parent.iter_fields():
        if isinstance(value, nodes.Concat):
            setattr(parent, name, _concat_call(value))
        elif isinstance(value, list):
            value[:] = [_concat_call(item) if isinstance(item, nodes.Concat) else item for item in value]


def _concat_call(node: nodes.Concat) -> nodes.Filter:
    parts = nodes.List(node.nodes, lineno=node.lineno)
    _replace_concat(parts)
    return nodes.Filter(parts, "_concat", [], [], None, None, lineno=node.lineno)


@pass_context
def _concat(_context: Context, parts: list[object]) -> str:
    budget = budgets.current()
    budget.step()
    _check_size(sum(budgets.weigh(part, budget) for part in parts), budget)
    return "".join(str(part) for part in parts)


@pass_context
def _step(_context: Context, weight: int) -> str:
    budgets.current().step(weight)
    return ""


@pass_context
def _pass(_context: Context, weight: int) -> bool:
    budgets.current().step(weight)
    return True


@pass_context
def _finalize(_context: Context, value: Any) -> Any:
    budget = budgets.current()
    if isinstance(value, str):
        budget.emit(len(value))
    elif not isinstance(value, Undefined):
        budget.emit(budgets.weigh(value, budget))
    return value


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that spends the size of its input first."""
    position = 1 if hasattr(function, "jinja_pass_arg") else 0

    def guarded(*args: Any, **kwargs: Any) -> Any:
        budget = budgets.current()
        values = list(args)
        if len(values) > position:
            values[position] = _sized(values[position], budget)
            if function.__name__.endswith("do_list"):
                budget.step(_length(values[position]) // 16)
        _check_filter(function.__name__, values[position:], kwargs, budget)
        return function(*values, **kwargs)

    guarded.__name__ = function.__name__
    if position:
        vars(guarded).update(vars(function))
    return guarded


def _sized(value: Any, budget: budgets.Budget) -> Any:
    if isinstance(value, str):
        budget.step(1 + len(value) // 1024)
        return value
    if isinstance(value, Iterable) and not hasattr(value, "__len__"):
        value = list(_metered(value, budget))
    budget.step(1 + _length(value))
    return value


def _metered(items: Iterable[Any], budget: budgets.Budget) -> Iterator[Any]:
    for item in items:
        budget.step()
        yield item


def _check_filter(name: str, values: list[Any], kwargs: dict[str, Any], budget: budgets.Budget) -> None:
    value = values[0] if values else ""
    if name == "do_replace":
        _check_replace(str(value), [*values[1:], *kwargs.values()], budget)
    elif name in {"do_join", "do_indent", "do_batch", "do_slice"}:
        extra = max([len(str(part)) if isinstance(part, str) else _number(part) for part in values[1:2]], default=4)
        extra = max([extra, *(len(part) if isinstance(part, str) else _number(part) for part in kwargs.values())])
        _check_size(budgets.weigh(value, budget) + extra * (_length(value) + 1), budget)
    elif not isinstance(value, str | Undefined):
        budgets.weigh(value, budget)


def _checked_string_call(owner: str, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    budget = budgets.current()
    budget.step(1 + len(owner) // (16 if "split" in name else 1024))
    if name == "replace":
        _check_replace(owner, list(args), budget)
    if name != "join" or not args:
        return args
    parts = _sized(args[0], budget)
    _check_size(budgets.weigh(parts, budget) + len(owner) * (_length(parts) + 1), budget)
    return (parts, *args[1:])


def _check_replace(text: str, args: list[Any], budget: budgets.Budget) -> None:
    new = max((len(part) for part in args if isinstance(part, str)), default=0)
    old = len(args[0]) if args and isinstance(args[0], str) else 1
    _check_size(len(text) + (len(text) // max(old, 1) + 1) * new, budget)


def _check_product(left: Any, right: Any, budget: budgets.Budget) -> None:
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > _MAX_INTEGER_BITS:
            raise TemplateTooExpensive("a product of large numbers")
        return
    length, count = (_length(left), right) if isinstance(right, int) else (_length(right), left)
    if length and isinstance(count, int):
        _check_size(length * max(count, 0), budget, per_step=_per_step(left))


def _check_percent(left: str, right: Any, budget: budgets.Budget) -> None:
    if re.search(r"\*|\d{3}", left):
        raise TemplateTooExpensive("a format with a large width")
    _check_size(len(left) * 100 + budgets.weigh(right, budget) * (left.count("%") + 1), budget)


def _check_size(size: int, budget: budgets.Budget, *, per_step: int = 256) -> None:
    if size > budget.characters:
        raise TemplateTooExpensive("the template makes too large a value")
    budget.step(1 + size // per_step)


def _per_step(value: Any) -> int:
    return 256 if isinstance(value, str) else 64


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 0


def _number(value: Any) -> int:
    return abs(value) if isinstance(value, int) else 4


def _is_small(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= 64  # noqa: PLR2004  64 ** 64 still is 384 bits


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise TemplateTooExpensive(f"a range of more than {MAX_RANGE}")
    return numbers


def _no_format(*_args: Any, **_kwargs: Any) -> str:
    raise SecurityError("str.format is not available in chat templates; use ~ or |string")


_ENVIRONMENT = BoundedEnvironment()
