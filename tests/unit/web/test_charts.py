"""The geometry of the bar chart."""

from portal.web import charts


def write(number: int) -> str:
    return f"{number}"


def test_nothing_to_show_is_no_chart():
    assert charts.bar_chart(["a", "b"], [("x", [0, 0])], write) is None
    assert charts.bar_chart([], [], write) is None


def test_bars_stand_on_the_base_and_stack():
    chart = charts.bar_chart(["a", "b"], [("x", [4, 0]), ("y", [4, 8])], write)

    first, second = chart.columns
    assert [bar.series for bar in first.bars] == [1, 2]
    assert [bar.height for bar in first.bars] == ["43.000%", "43.000%"]
    assert [bar.y for bar in first.bars] == ["45.000%", "2.000%"]
    assert [bar.height for bar in second.bars] == ["86.000%"]
    assert first.text == "a: x 4, y 4"
    assert chart.legend == [(1, "x", "4"), (2, "y", "12")]


def test_the_axis_ends_at_a_round_number_above():
    chart = charts.bar_chart(["a"], [("x", [130])], write)

    assert [label for _, label in chart.grid] == ["0", "50", "100", "150", "200"]


def test_more_than_six_series_end_in_other():
    series = [(f"s{n}", [n]) for n in range(1, 10)]

    merged = charts.merged(series)

    assert [name for name, _ in merged] == ["s9", "s8", "s7", "s6", "s5", "Other"]
    assert sum(values[0] for _, values in merged) == sum(range(1, 10))


def test_labels_are_thinned():
    chart = charts.bar_chart([f"{n}" for n in range(30)], [("x", [1] * 30)], write)

    assert len(chart.ticks) == 8
