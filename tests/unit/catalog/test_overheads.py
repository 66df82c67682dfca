"""Overheads are proven by probes, and where none hold there is no proof."""

import pytest

from portal.catalog.rules.overheads import Overheads, prove
from portal.catalog.rules.rendering import TemplateInvalid
from tests.factories.catalog import demo_template

ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('x') }}"
    "{% endif %}[{{ m.content }}]{% endfor %}"
)
EACH = "{% for m in messages %}BODY{% endfor %}"


def test_the_demo_template_is_proven():
    assert prove(demo_template().decode()) == Overheads(message_bytes=36, request_bytes=19)


@pytest.mark.parametrize(
    ("template", "proven"),
    [
        (EACH.replace("BODY", "{{ m.content }}"), Overheads(0, 0)),
        (EACH.replace("BODY", "<{{ m.content }}>"), Overheads(2, 0)),
        ("START" + EACH.replace("BODY", "{{ m.content|trim }}") + "END", Overheads(1, 7)),
        (
            ALTERNATING,
            Overheads(2, 0),
        ),
    ],
)
def test_what_can_be_proven(template, proven):
    assert prove(template) == proven


@pytest.mark.parametrize(
    "template",
    [
        EACH.replace("BODY", "{{ m.content }}{{ m.content }}"),
        EACH.replace("BODY", "{{ m|tojson }}"),
        EACH.replace("BODY", "{{ m.content|replace('abc', 'abcdef') }}"),
        EACH.replace("BODY", "{{ m.content|escape }}"),
        EACH.replace("BODY", "{% if 'magic' in m.content %}{{ 'x' * 5000 }}{% endif %}{{ m.content }}"),
        EACH.replace("BODY", "{% for k in messages %}zz{% endfor %}{{ m.content }}"),
        "{{ messages[0].content }}" + EACH.replace("BODY", "{{ m.content }}"),
        "{% for m in messages %}{{ m.content }}{% for c in m.content %} {% endfor %}{% endfor %}",
        "{{ raise_exception('never') }}",
    ],
)
def test_what_cannot_be_bounded_is_not_proven(template):
    assert prove(template) is None


def test_a_surprise_after_a_number_of_messages_is_found():
    template = EACH.replace("BODY", "{{ m.content }}") + "{% if messages|length > 30 %}{{ 'x' * 9000 }}{% endif %}"

    found = prove(template)

    assert found is None or found.message_bytes * 31 + found.request_bytes >= 9000


def test_a_template_that_does_not_compile_is_named():
    with pytest.raises(TemplateInvalid):
        prove("{% for %}")
