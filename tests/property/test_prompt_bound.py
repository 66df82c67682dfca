"""For any plain messages, the prompt has at most content bytes + n · message + request tokens."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from portal.catalog.rules.overheads import prove
from portal.catalog.rules.rendering import RenderingRefused, compile_template, render_chat
from tests.factories.catalog import demo_template, demo_tokenizer

DEMO = demo_template().decode()
LLAMA_LIKE = (
    "{%- set bos_token = '<|begin|>' -%}{{- bos_token }}"
    "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content']|trim %}"
    "{%- set messages = messages[1:] %}{%- else %}{%- set system = '' %}{%- endif %}"
    "{{- '<|head|>system<|end|>\\n\\nToday: ' + strftime_now('%d %b %Y') + '\\n\\n' + system + '<|eot|>' }}"
    "{%- for message in messages %}{{- '<|head|>' + message['role'] + '<|end|>\\n\\n' + message['content']|trim"
    " + '<|eot|>' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|head|>assistant<|end|>\\n\\n' }}{%- endif %}"
)
THINKING = (
    "{%- for m in messages %}{{ '<|' + m.role + '|>' }}{%- if m.role == 'assistant' and '</think>' in m.content %}"
    "{{ m.content.split('</think>')[-1].lstrip('\\n') }}{%- else %}{{ m.content }}{%- endif %}{{ '<|stop|>' }}"
    "{%- endfor %}{{ '<|assistant|><think>\\n' }}"
)
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('order') }}"
    "{% endif %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else m.content + '</s>' }}{% endfor %}"
)
TEMPLATES = {"demo": DEMO, "llama": LLAMA_LIKE, "thinking": THINKING, "alternating": ALTERNATING}

contents = st.one_of(
    st.text(max_size=200),
    st.text(alphabet='😀é\n \t"\\<|>{}%', max_size=200),
    st.sampled_from(["</think>", "<think>", "<|im_end|>", "\n\n\n", " ", "a" * 3000, "ﷺ" * 50, "<|eot|>"]),
    st.lists(st.sampled_from(["</think>", "<|im_start|>", "x", "\n", " ", "user"]), max_size=30).map("".join),
)
talks = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": contents}),
    min_size=1,
    max_size=40,
)


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_str(demo_tokenizer().decode())


@cache
def proven(name: str):
    return prove(TEMPLATES[name])


# d-inference#161 (#115): a quarter of the characters was held, and the node was short-paid
@pytest.mark.parametrize("name", sorted(TEMPLATES))
@settings(max_examples=60, deadline=None)
@given(messages=talks)
def test_the_bound_holds(name, messages):
    overheads = proven(name)
    assert overheads is not None
    try:
        rendered = render_chat(compile_template(TEMPLATES[name]), messages=messages)
    except RenderingRefused:
        assert name == "alternating"
        return

    content_bytes = sum(len(message["content"].encode()) for message in messages)
    bound = content_bytes + len(messages) * overheads.message_bytes + overheads.request_bytes

    assert len(rendered.encode()) <= bound
    assert len(tokenizer().encode(rendered, add_special_tokens=False).ids) <= bound
