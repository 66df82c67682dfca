"""A node's breaker has three outcomes: faults open it, being busy delays, a customer's error says nothing."""

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
        breaker.enter()
        breaker.note(verdict, OPEN_S, backoff_s=0.0)
        assert breaker.blocks(OPEN_S) == ""


def test_two_successes_close_it_and_a_fault_opens_it_for_another_term() -> None:
    breaker = _opened()
    breaker.enter()
    breaker.note(Verdict.SUCCESS, OPEN_S)
    assert not breaker.is_closed
    breaker.enter()
    breaker.note(Verdict.SUCCESS, OPEN_S)
    assert breaker.is_closed

    again = _opened()
    again.enter()
    again.note(Verdict.FAULT, OPEN_S)
    assert again.blocks(OPEN_S * 2 - 1) == "breaker"
    assert again.blocks(OPEN_S * 2) == ""
