"""What one attempt costs and earns: tokens by the counting rule, one rating, never above the hold, then the split."""

from portal.billing.rules import rating
from portal.billing.rules.rating import PriceTerms
from portal.core import money
from portal.core.records import record
from portal.metering.rules import counting, outcomes
from portal.metering.rules.counting import Counted, Source

NO_SOURCE = "none"


@record(frozen=True, slots=True)
class Agreed:
    """What was pinned when the attempt was opened."""

    price: PriceTerms
    share_bps: int
    hold_nano: int
    prompt_bound: int
    output_bound: int
    has_tolerance: bool
    trusts_cached: bool = True


@record(frozen=True, slots=True)
class Observed:
    """What was seen of the attempt: the node's claims, our counts, and the bytes that reached the customer.

    `expected_cached` are the prompt tokens that the node's cache must have held, None where nobody looked.
    """

    claimed_prompt: int | None
    claimed_cached: int | None
    claimed_completion: int | None
    counted_prompt: int | None
    counted_completion: int | None
    end_tokens: int
    delivered_bytes: int
    expected_cached: int | None = None


@record(frozen=True, slots=True)
class Bill:
    """Billed tokens and money; `charge_nano` = `provider_nano` + `platform_nano`."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    token_source: str
    charge_nano: int
    provider_nano: int
    platform_nano: int


FREE = Bill(0, 0, 0, NO_SOURCE, 0, 0, 0)


def settle(*, outcome: str, agreed: Agreed, observed: Observed, source: Source | None = None) -> Bill:
    """Return the bill; `source` overrides where the counts are said to come from."""
    if not outcomes.is_charged(outcome=outcome, has_delivered=observed.delivered_bytes > 0):
        return FREE
    prompt = counting.bill(
        claim=observed.claimed_prompt,
        counted=Counted(observed.counted_prompt, agreed.prompt_bound),
        has_tolerance=agreed.has_tolerance,
    )
    completion = counting.bill(
        claim=observed.claimed_completion,
        counted=Counted(
            observed.counted_completion, min(observed.delivered_bytes, agreed.output_bound), observed.end_tokens
        ),
        has_tolerance=agreed.has_tolerance,
    )
    cached = observed.claimed_cached or 0
    if not agreed.trusts_cached:  # the node was caught saying too little, which the customer would pay for
        cached = max(cached, observed.expected_cached or 0)
    cached = min(cached, prompt.tokens)
    rated = rating.charge_nano(price=agreed.price, prompt=prompt.tokens, cached=cached, completion=completion.tokens)
    charge = min(rated, agreed.hold_nano)
    provider, platform = money.split_share(charge, agreed.share_bps)
    said = source or max(prompt.source, completion.source)
    return Bill(prompt.tokens, cached, completion.tokens, said.label, charge, provider, platform)


def columns(*, bill: Bill, observed: Observed) -> dict[str, object]:
    """Return the columns of the usage record that the bill and what was seen fill."""
    return {
        "prompt_tokens": bill.prompt_tokens,
        "cached_tokens": bill.cached_tokens,
        "completion_tokens": bill.completion_tokens,
        "claimed_prompt_tokens": observed.claimed_prompt,
        "claimed_cached_tokens": observed.claimed_cached,
        "claimed_completion_tokens": observed.claimed_completion,
        "counted_prompt_tokens": observed.counted_prompt,
        "counted_completion_tokens": observed.counted_completion,
        "expected_cached_tokens": observed.expected_cached,
        "delivered_bytes": observed.delivered_bytes,
        "token_source": bill.token_source,
        "charge_nano": bill.charge_nano,
        "provider_nano": bill.provider_nano,
        "platform_nano": bill.platform_nano,
    }
