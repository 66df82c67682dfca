"""Each verdict that an audit can come to has its words, and its limit is the rule's own."""

import pytest

from portal.trust.rules import bias, cache, engine_counters
from portal.trust.rules.bias import Sums
from portal.trust.rules.cache import Cached
from portal.trust.rules.engine_counters import Tokens
from portal.trust.rules.verdicts import Audit, Verdict, meaning
from portal.web.statuses import status_of

POSSIBLE = [
    (audit, verdict)
    for audit in Audit
    for verdict in (
        Verdict.IN_ORDER,
        Verdict.TOO_FEW if audit == Audit.CACHE else Verdict.TOO_MANY,
        Verdict.UNMEASURED,
    )
]


@pytest.mark.parametrize(("audit", "verdict"), POSSIBLE)
def test_a_verdict_has_its_words(audit: Audit, verdict: Verdict):
    assert meaning(audit, verdict).endswith(".")
    assert status_of(verdict).icon != "circle"
    assert audit.against


@pytest.mark.parametrize("counted", [1_000, 1_001, 99_999, 123_457])
@pytest.mark.parametrize("others", [Sums(), Sums(2_040, 2_000), Sums(900, 1_000)])
def test_one_token_beyond_the_limit_is_too_many(counted: int, others: Sums):
    most = bias.most_claimable(own=Sums(0, counted, 7), others=others)

    assert not bias.exceeds_model(own=Sums(most, counted, 7), others=others)
    assert bias.exceeds_model(own=Sums(most + 1, counted, 7), others=others)
    assert Sums(most, counted, 7).bias_bps <= (200 if others.claimed == 2_040 else 0) + 20
    assert Sums(most + 1, counted, 7).bias_bps > (200 if others.claimed == 2_040 else 0) + 20


def test_one_token_beyond_the_engines_limit_is_too_many():
    most = engine_counters.most_claimable(70_000)

    assert not engine_counters.exceeds_engine(claimed=Tokens(0, most), engine=Tokens(0, 70_000))
    assert engine_counters.exceeds_engine(claimed=Tokens(0, most + 1), engine=Tokens(0, 70_000))


@pytest.mark.parametrize("others", [Cached(), Cached(30_001, 20_003)])
def test_one_token_below_the_least_hides_the_cache(others: Cached):
    least = cache.least_claimable(own=Cached(20_001, 0), others=others)

    assert not cache.hides_cache(own=Cached(20_001, least), others=others)
    assert cache.hides_cache(own=Cached(20_001, least - 1), others=others)
