"""A chat's deltas become blocks, whichever way they alternate."""

import pytest

from portal.gateway.dialects.blocks import BlockCutter, Kind, Moment
from portal.gateway.failures import NodeFailed
from tests.unit.gateway.dialects.answers import call, delta


def cut(*chunks) -> tuple[BlockCutter, list[tuple[str, int, str]]]:
    cutter = BlockCutter()
    steps = [step for chunk in chunks for step in cutter.take(chunk)]
    return cutter, [(step.moment.value, step.block.number, step.text) for step in [*steps, *cutter.end()]]


def test_reasoning_then_text_then_two_calls():
    cutter, steps = cut(
        delta(role="assistant", content=""),
        delta(reasoning="hm"),
        delta(content="So"),
        delta(content="."),
        delta(tool_calls=[call(0, "", name="f")]),
        delta(tool_calls=[call(0, '{"a":')]),
        delta(tool_calls=[call(0, "1}")]),
        delta(tool_calls=[call(1, "{}", name="g")]),
        delta("tool_calls"),
    )

    assert steps == [
        ("start", 0, ""),
        ("delta", 0, "hm"),
        ("stop", 0, ""),
        ("start", 1, ""),
        ("delta", 1, "So"),
        ("delta", 1, "."),
        ("stop", 1, ""),
        ("start", 2, ""),
        ("delta", 2, '{"a":'),
        ("delta", 2, "1}"),
        ("stop", 2, ""),
        ("start", 3, ""),
        ("delta", 3, "{}"),
        ("stop", 3, ""),
    ]
    assert [(block.kind, block.text) for block in cutter.blocks] == [
        (Kind.REASONING, "hm"),
        (Kind.TEXT, "So."),
        (Kind.CALL, '{"a":1}'),
        (Kind.CALL, "{}"),
    ]
    assert cutter.finish_reason == "tool_calls"


def test_text_amid_a_call_does_not_end_its_arguments():
    _, steps = cut(
        delta(tool_calls=[call(0, '{"a":', name="f")]), delta(content="\n"), delta(tool_calls=[call(0, "1}")])
    )

    assert steps == [
        ("start", 0, ""),
        ("delta", 0, '{"a":'),
        ("start", 1, ""),
        ("delta", 1, "\n"),
        ("delta", 0, "1}"),
        ("stop", 0, ""),
        ("stop", 1, ""),
    ]


def test_a_call_that_goes_on_after_the_next_has_begun_is_the_nodes_fault():
    cutter = BlockCutter()
    cutter.take(delta(tool_calls=[call(0, "{", name="f")]))
    cutter.take(delta(tool_calls=[call(1, "{}", name="g")]))

    with pytest.raises(NodeFailed) as failure:
        cutter.take(delta(tool_calls=[call(0, "}")]))

    assert failure.value.code == "tool_call_continued"


def test_both_names_of_reasoning_are_one_text():
    cutter, _ = cut(delta(reasoning="a", reasoning_content="a"), delta(reasoning_content="b"))

    assert [block.text for block in cutter.blocks] == ["ab"]


def test_every_start_has_its_stop_and_every_delta_lies_between():
    _, steps = cut(
        delta(content="a"), delta(reasoning="b"), delta(content="c"), delta(tool_calls=[call(0, "{}", name="f")])
    )

    for number in range(4):
        moments = [moment for moment, block, _ in steps if block == number]
        assert moments[0] == Moment.START.value
        assert moments[-1] == Moment.STOP.value
        assert set(moments[1:-1]) == {Moment.DELTA.value}
