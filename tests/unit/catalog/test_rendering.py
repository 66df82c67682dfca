"""Chat templates are rendered as the model's own, and a hostile one cannot harm us."""

import time
from datetime import UTC, datetime

import pytest

from portal.catalog.rules.rendering import RenderingRefused, TemplateInvalid, bake, compile_template, render_chat
from tests.factories.catalog import demo_template

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def render(text: str, **options) -> str:
    return render_chat(compile_template(text), messages=options.pop("messages", TALK), **options)


def test_the_demo_template_writes_chatml():
    assert render(demo_template().decode()) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tools_and_calls_are_written():
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"city": "Köln <1>"}}}
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "weather", "arguments": "{}"}}]}

    text = render(demo_template().decode(), messages=[*TALK, call], tools=[tool], add_generation_prompt=False)

    assert '{"type": "function", "function": {"name": "weather", "parameters": {"city": "Köln <1>"}}}' in text
    assert '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>' in text
    assert not text.endswith("assistant\n")


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ('{"city": "Köln"}', "city=Köln;"),
        ("", ""),
        (None, ""),
        ('{"city": "Kö', ""),
        ("[1]", ""),
        ({"city": "Köln"}, "city=Köln;"),
    ],
)
def test_a_template_gets_a_calls_arguments_as_an_object(arguments, seen):
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    template = (
        "{% for name, value in messages[0].tool_calls[0].function.arguments.items() %}{{ name }}={{ value }};"
        "{% endfor %}{{ messages[0].content + '' }}"
    )

    assert render(template, messages=[call]) == seen
    assert call["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{%- for m in messages %}{{ loop.index }}{{ loop.last }}{% endfor %}", "1False2True"),
        (
            "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% break %}{% endfor %}",
            "Hi",
        ),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"),
        ("{% generation %}{{ messages[1]['content'] }}{% endgeneration %}", "Hi"),
        ("{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join('-') }}", "Hi"),
        ("{{ messages[0].content.split(' ')[0] ~ '!' ~ 3 }}", "Be!3"),
        ("{{ 'a,b'.split(',')|join('+') }}{{ 'x'.upper() }}{{ ['p', 'q']|join }}", "a+bXpq"),
        ("{{ {'b': 1, 'a': 'é'}|tojson }}", '{"b": 1, "a": "é"}'),
        ("{{ {'a': [1]}|tojson(indent=2) }}", '{\n  "a": [\n    1\n  ]\n}'),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m('a') }}{{ m('b') }}", "[a][b]"),
        ("{{ bos_token }}{{ missing }}{{ missing is defined }}", "False"),
        ("{{ messages[::-1]|map(attribute='role')|list }}", "['user', 'system']"),
        ("{{ '%s-%d' % ('a', 3) }}{{ 'ab' * 2 }}{{ [1] + [2] }}", "a-3abab[1, 2]"),
        ("{{ strftime_now('%d %b %Y') }}", "02 Nov 2026"),
        ("{{ tools is none }}{{ add_generation_prompt }}{{ thinking }}", "TrueTrueon"),
        ("{{ messages|length }}{{ '  x '|trim }}{{ 'a b'|replace(' ', '_') }}", "2xa_b"),
    ],
)
def test_what_real_templates_use(template, expected):
    now = datetime(2026, 11, 2, tzinfo=UTC)

    assert render(template, extra={"thinking": "on"}, now=now) == expected


def test_a_template_may_refuse_messages():
    with pytest.raises(RenderingRefused, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_baked_tokens_stand_in_the_template_itself():
    text = bake("{{ bos_token }}{{ eos_token }}", {"bos_token": "<s'\\>", "eos_token": "</s>\n", "x": "no"})

    assert render(text) == "<s'\\></s>\n"


@pytest.mark.parametrize(
    "template", ["{% for %}", "{{ x", "{% endif %}", "{{ 'x'|center(9) }}", "x" * 300_000, "{{ " + "(" * 5000]
)
def test_what_does_not_compile_is_refused(template):
    with pytest.raises(TemplateInvalid):
        compile_template(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ strftime_now|tojson }}",
        "{{ {'a': 1}|tojson(indent=900) }}",
        "{{ 3 ** 2 }}{{ none.x.y }}",
        "{{ messages|tojson(separators=5) }}",
        "{{ ('x' * 9).join() }}",
        "{{ 1 / 0 }}",
        "{{ [1, 2][9].x }}",
        "{{ 'a' + 1 }}",
    ],
)
def test_a_template_that_breaks_is_a_refusal(template):
    with pytest.raises(RenderingRefused):
        render(template)


def test_odd_but_harmless_uses():
    assert render("{{ 2 ** 3 }}{{ 'ab' * -1 }}{{ [0] * 2 }}{{ 2 * 'z' }}{{ 7 % 4 }}") == "8[0, 0]zz3"
    assert render("{{ messages|join(',', attribute='role') }}{{ ['b', 'a']|sort|join }}") == "system,userab"
    assert (
        render("{% call(x) m('q') %}<{{ x }}>{% endcall %}".join(["{% macro m(a) %}{{ caller(a) }}{% endmacro %}", ""]))
        == "<q>"
    )


DOUBLING = "{% set ns = namespace(x='aaaa') %}{% for i in range(100) %}{% set ns.x = ns.x OP ns.x %}{% endfor %}"
NESTED = "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
HOSTILE = [
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * 1000000000 }}",
    "{{ [1] * 1000000000 }}",
    "{{ 7 ** 99999999 }}",
    "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}",
    "{% for a in 'x' * 1000 %}{% for b in 'x' * 1000 %}{% for c in 'x' * 1000 %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for i in range(10000) if (range(10000)|sum) > 99999999999 %}{% endfor %}",
    DOUBLING.replace("OP", "~"),
    DOUBLING.replace("OP", "+"),
    "{% set ns = namespace(x=9) %}{% for i in range(10000) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(60) }}",
    "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(1) }}",
    NESTED + "{{ ns.x }}",
    NESTED + "{{ ns.x|tojson }}",
    NESTED + "{{ ns.x|string|length }}",
    NESTED + "{{ ns.x ~ '' }}",
    NESTED + "{{ '%s' % ns.x }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a'.zfill(1000000000) }}",
    "{{ 'a\t'.expandtabs(1000000000) }}",
    "{{ strftime_now('%1000000000Y') }}",
    "{{ range(1000000000)|list|length }}",
    "{{ 'a'|replace('', 'b' * 100000)|replace('', 'c' * 100000)|length }}",
    "{{ ('a' * 5000000).replace('a', 'bbbbbbbbbb')|length }}",
    "{{ messages|join('x' * 10000000)|length }}",
    "{{ ('x' * 1000000).join(range(10000)|map('string'))|length }}",
    "{{ [1]|batch(100000000, 'x')|list|length }}",
    "{{ 'a\nb'|indent(100000000)|length }}",
    "{% set x %}{% for i in range(10000) %}" + "z" * 100_000 + "{% endfor %}{% endset %}{{ x|length }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'a': 1}) }}",
    "{% include 'secrets' %}",
    "{% extends 'base.html' %}",
]


@pytest.mark.parametrize("template", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_template_is_stopped_soon_and_cheaply(template):
    started = time.process_time()

    with pytest.raises((RenderingRefused, TemplateInvalid)):
        render(template, messages=[{"role": "user", "content": "hello" * 1000}])

    assert time.process_time() - started < 4


def test_a_rendering_leaves_the_next_one_its_full_budget():
    heavy = compile_template("{% for i in range(9000) %}{{ i }}{% endfor %}")

    assert [len(render_chat(heavy, messages=TALK)) for _ in range(30)] == [34890] * 30


@pytest.mark.parametrize("name", ["__globals__", "__class__", "__init__", "func_globals"])
def test_inner_attributes_are_not_there(name):
    assert render("{{ raise_exception." + name + " }}{{ messages." + name + " }}") == ""


def test_a_long_honest_prompt_is_rendered():
    content = "lorem ipsum dolor " * 50_000

    text = render(demo_template().decode(), messages=[{"role": "user", "content": content}])

    assert content in text
