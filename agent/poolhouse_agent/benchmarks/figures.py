"""Figures of many requests."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from poolhouse_agent.benchmarks.asking import Answered


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that `percent` of all do not exceed; 0 where there is none."""
    ordered = sorted(values)
    return ordered[max(0, ceil(percent / 100 * len(ordered)) - 1)] if ordered else 0.0


def summary(answers: Sequence[Answered]) -> dict[str, Any]:
    """Return milliseconds and rates of some requests that ran together."""
    firsts, gaps = [one.first_s for one in answers], [one.inter_token_s for one in answers if one.gaps_s]
    span_s = max(one.ended_at for one in answers) - min(one.began_at for one in answers)
    return {
        "requests": len(answers),
        "prompt_tokens": max(one.prompt_tokens for one in answers),
        "completion_tokens": sum(one.completion_tokens for one in answers),
        "first_token_ms": {"p50": _ms(percentile(firsts, 50)), "p95": _ms(percentile(firsts, 95))},
        "inter_token_ms": {"p50": _ms(percentile(gaps, 50)), "p95": _ms(percentile(gaps, 95))},
        "output_tokens_per_s": round(sum(one.completion_tokens for one in answers) / max(span_s, 1e-6), 1),
        "decode_tokens_per_s": round(decode_rate(answers), 1),
    }


def decode_rate(answers: Sequence[Answered]) -> float:
    """Return tokens a second that all streams together write after each one's first token."""
    written = sum(max(0, one.completion_tokens - 1) for one in answers)
    from_s = min(one.began_at + one.first_s for one in answers)
    span_s = max(one.ended_at for one in answers) - from_s
    return written / max(span_s, 1e-6)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)
