"""What a visitor writes of a machine: GPUs and the price of a kilowatt hour, in one line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poolhouse_common.planner import GpusRefused, default_kinds

from portal.web.public.machine_text import MAX_LETTERS, read_machine

KINDS = default_kinds()


@pytest.mark.parametrize(
    ("text", "names", "kwh_nano"),
    [
        ("3 × 4090, 0.30/kWh", ["RTX 4090"] * 3, 300_000_000),  # noqa: RUF001  what people type
        ("3 x 4090, 0,30/kWh", ["RTX 4090"] * 3, 300_000_000),
        ("3x4090 0.25 / kwh", ["RTX 4090"] * 3, 250_000_000),
        ("3 x 4090 at $0.12 per kWh", ["RTX 4090"] * 3, 120_000_000),
        ("3 x 4090, 0.30 €/kWh", ["RTX 4090"] * 3, 300_000_000),
        ("3 x 4090, € 0.30 a kWh", ["RTX 4090"] * 3, 300_000_000),
        ("0.08/kWh, 2 x 3090, 1 A100 40GB", ["RTX 3090", "RTX 3090", "A100 40GB"], 80_000_000),
        ("1 H100 @ 0/kWh", ["H100 SXM"], 0),
        ("4090, 30 eur/kwh", ["RTX 4090"], 30_000_000_000),
    ],
)
def test_what_people_write(text: str, names: list[str], kwh_nano: int):
    found = read_machine(text, KINDS)

    assert [gpu.name for gpu in found.gpus] == names
    assert (found.kwh_nano, found.has_price) == (kwh_nano, True)


def test_a_price_that_was_left_out_is_assumed_and_said():
    found = read_machine("2 x 4090", KINDS)

    assert (found.kwh_nano, found.has_price) == (300_000_000, False)


@settings(deadline=None)
@given(st.text(max_size=MAX_LETTERS) | st.from_regex(r"[0-9x ,.]{0,12}(4090|3090)[ ,.0-9/kWh]{0,20}", fullmatch=True))
def test_no_text_does_worse_than_be_refused(text: str):
    try:
        found = read_machine(text, KINDS)
    except GpusRefused:
        return
    assert found.gpus
    assert found.kwh_nano >= 0
