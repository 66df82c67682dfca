"""A node's breaker has three outcomes: faults open it, being busy delays, a customer's error says nothing."""

from portal.gateway import failures
from portal.gateway.breaker import FAULTS_TO_OPEN, OPEN_S, Breaker, Verdict


def _opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(FAULTS_TO_OPEN):
        breaker.note(Verdict.FAULT, at)
    return breaker


def test_five_faults_within_a_minute_open_it() -> None:
    breaker = Breaker()
    for second in range(FAULTS_TO_OPEN - 1):
        breaker.note(Verdict.FAULT, second)
        assert breaker.blocks(second) == ""

    breaker.note(Verdict.FAULT, 4.0)

    assert breaker.blocks(5.0) == "breaker"


def test_faults_far_apart_do_not_open_it() -> None:
    breaker = Breaker()
    for minute in range(20):
        breaker.note(Verdict.FAULT, minute * 60.0)

    assert breaker.blocks(1_200.0) == ""


def test_customers_errors_and_refusals_never_open_it() -> None:
    breaker = Breaker()
    for _ in range(100):
        breaker.note(Verdict.NEUTRAL, 0.0)
        breaker.note(Verdict.BACKPRESSURE, 0.0, backoff_s=1.0)

    assert breaker.is_closed
    assert breaker.blocks(0.5) == "busy"
    assert breaker.blocks(1.5) == ""


def test_backpressure_is_clamped() -> None:
    breaker = Breaker()

    breaker.note(Verdict.BACKPRESSURE, 0.0, backoff_s=3_600.0)

    assert breaker.blocks(5.1) == ""


def test_half_open_lets_one_probe_through_at_a_time() -> None:
    breaker = _opened()

    assert breaker.blocks(OPEN_S - 1) == "breaker"
    assert breaker.blocks(OPEN_S) == ""
    breaker.enter()
    assert breaker.blocks(OPEN_S) == "breaker"


def test_a_probe_that_says_nothing_gives_its_place_back() -> None:
    breaker = _opened()
    for verdict in (Verdict.NEUTRAL, Verdict.BACKPRESSURE):
        is_probe = breaker.enter()
        assert is_probe
        breaker.note(verdict, OPEN_S, is_probe=is_probe, backoff_s=0.0)
        assert breaker.blocks(OPEN_S) == ""
        assert not breaker.is_closed


def test_two_successes_close_it_and_a_fault_opens_it_for_another_term() -> None:
    breaker = _opened()
    breaker.note(Verdict.SUCCESS, OPEN_S, is_probe=breaker.enter())
    assert not breaker.is_closed
    breaker.note(Verdict.SUCCESS, OPEN_S, is_probe=breaker.enter())
    assert breaker.is_closed

    again = _opened()
    again.note(Verdict.FAULT, OPEN_S, is_probe=again.enter())
    assert again.blocks(OPEN_S * 2 - 1) == "breaker"
    assert again.blocks(OPEN_S * 2) == ""


def test_only_the_probe_speaks_for_an_open_breaker() -> None:
    breaker = Breaker()
    old = [breaker.enter() for _ in range(20)]
    for _ in range(FAULTS_TO_OPEN):
        breaker.note(Verdict.FAULT, 0.0)
    probe = breaker.enter()

    for is_probe in old:
        breaker.note(Verdict.SUCCESS, OPEN_S, is_probe=is_probe)

    assert (probe, any(old)) == (True, False)
    assert not breaker.is_closed
    assert breaker.blocks(OPEN_S) == "breaker"  # the probe still has the one place


def test_a_fault_in_hundreds_of_good_answers_does_not_shut_a_node() -> None:
    breaker = Breaker()
    for number in range(20):
        breaker.note(Verdict.FAULT, number * 0.1)
        for _ in range(100):
            breaker.note(Verdict.SUCCESS, number * 0.1)

    assert breaker.is_closed


def test_how_soon_a_node_may_be_tried_again_is_known() -> None:
    busy, opened = Breaker(), _opened()
    busy.note(Verdict.BACKPRESSURE, 0.0, backoff_s=2.0)

    assert busy.frees_in_s(0.5) == 1.5
    assert opened.frees_in_s(10.0) == OPEN_S - 10.0
    assert Breaker().frees_in_s(0.0) == 0.0


# What others got wrong: the thread, and the value that is right.


def test_4xx_is_neutral() -> None:  # sglang#25811
    breaker = Breaker()
    for _ in range(100):
        breaker.note(failures.from_engine(400, b'{"error": {"message": "no"}}').verdict, 0.0)
        breaker.note(failures.from_engine(422, b"{}").verdict, 0.0)
        breaker.note(failures.from_engine(413, b"{}").verdict, 0.0)

    assert breaker.blocks(0.0) == ""


def test_429_and_503_are_backpressure_neither_fault_nor_success() -> None:  # sglang#39464
    breaker = Breaker()
    for status in (429, 503):
        failure = failures.from_engine(status, b"")
        assert failure.verdict is Verdict.BACKPRESSURE
        for _ in range(FAULTS_TO_OPEN * 2):
            breaker.note(failure.verdict, 0.0, backoff_s=failure.backoff_s)

    assert breaker.is_closed
    assert breaker.blocks(0.0) == "busy"


def test_backpressure_does_not_reset_the_faults() -> None:  # voidllm#184
    breaker = Breaker()
    for second in range(FAULTS_TO_OPEN):
        breaker.note(Verdict.FAULT, second)
        breaker.note(Verdict.BACKPRESSURE, second, backoff_s=0.0)

    assert breaker.blocks(FAULTS_TO_OPEN) == "breaker"


def test_half_open_slot_is_released_by_backpressure() -> None:  # voidllm#185
    breaker = _opened()

    breaker.note(Verdict.BACKPRESSURE, OPEN_S, is_probe=breaker.enter(), backoff_s=1.0)

    assert breaker.blocks(OPEN_S + 0.5) == "busy"
    assert breaker.blocks(OPEN_S + 1.0) == ""
    assert breaker.enter()


def test_25_straight_500s_keep_a_node_in_rotation_for_five() -> None:  # litellm#34836
    breaker = Breaker()
    served = 0
    for _ in range(25):
        if not breaker.blocks(0.0):
            served += 1
            breaker.note(failures.from_engine(500, b"").verdict, 0.0, is_probe=breaker.enter())

    assert served == FAULTS_TO_OPEN
