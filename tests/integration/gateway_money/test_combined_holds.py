"""One hold may combine promotional and paid credit: the first pays first, and no nano is lost between them."""

import pytest

from portal.billing.models import CreditLease, LedgerAccount, LedgerTransfer
from portal.billing.selectors.differences import found
from portal.billing.services import lease_sweep, posting, recompute
from portal.core import clock
from portal.core.money import NANO_PER_UNIT
from portal.gateway.credit import CreditExhausted
from portal.metering.models import UsageRecord
from tests.factories.billing import Market
from tests.integration.gateway_money.rig import Goods, Process, run, running

pytestmark = pytest.mark.django_db(transaction=True)

CENT = NANO_PER_UNIT // 100


def _balance(market: Market, kind: str) -> int:
    account = LedgerAccount.objects.get(code=f"{kind}:{market.customer.public_id}")
    assert account.held == 0
    return account.credits - account.debits


def _serve(tmp_path, market: Market, *, nano: int, tokens: int):
    """Serve one request that is bounded by `nano` and delivers `tokens`; nothing is counted, so bytes are tokens."""

    async def scenario():
        goods = Goods(market)
        async with running(Process(tmp_path, goods=goods, read_artefact=lambda sha256: None)) as (process,):
            hold = await process.place(nano)
            attempt = await process.open(hold, prompt_bound_tokens=0, output_bound_tokens=10**7, is_stream=False)
            attempt.deliver("x" * tokens)
            settled = await process.settlement.close(attempt, outcome="completed")
            with pytest.raises(CreditExhausted):
                await process.place(2 * NANO_PER_UNIT)
            return settled

    return run(scenario)


@pytest.mark.parametrize(
    ("tokens", "promo_left", "paid_left", "charges"),
    [
        (10**6, 0, 30 * CENT, [60 * CENT, 20 * CENT]),
        (750_001, 0, 50 * CENT - 800, [60 * CENT, 800]),
        (750_000, 0, 50 * CENT, [60 * CENT, 0]),
        (1, 60 * CENT - 800, 50 * CENT, [800, 0]),
        (2 * 10**6, 0, 10 * CENT, [60 * CENT, 40 * CENT]),
    ],
)
def test_sixty_cents_given_and_fifty_paid_carry_a_request_of_one_dollar(
    tmp_path, tokens, promo_left, paid_left, charges
):
    market = Market(paid_nano=50 * CENT, promo_nano=60 * CENT, lease_nano=0)

    settled = _serve(tmp_path, market, nano=NANO_PER_UNIT, tokens=tokens)

    row = UsageRecord.objects.get()
    assert settled.charge_nano == row.charge_nano == sum(charges) == min(tokens * 800, NANO_PER_UNIT)
    assert row.lease_charges == charges
    kinds = dict(CreditLease.objects.values_list("pk", "account__kind"))
    assert [kinds[lease_id] for lease_id in row.lease_ids] == ["promo_credit", "customer_credit"]
    posted = posting.post_usage(now=clock.now())
    lease_sweep.sweep(now=clock.now())
    assert (posted.records, posted.transactions, posted.charged_nano) == (1, 1, sum(charges))
    assert (_balance(market, "promo_credit"), _balance(market, "customer_credit")) == (promo_left, paid_left)
    assert sum(LedgerTransfer.objects.filter(tx__kind="usage").values_list("amount", flat=True)) == sum(charges)
    assert list(found()) == []
    assert all(charge.is_right for charge in recompute.request(request_id=row.request_id))


def test_requests_of_one_and_of_two_payers_are_posted_apart(tmp_path):
    market = Market(paid_nano=50 * CENT, promo_nano=60 * CENT, lease_nano=0)

    for tokens in (500_000, 500_000, 100_000):
        _serve(tmp_path, market, nano=tokens * 800, tokens=tokens)
    posted = posting.post_usage(now=clock.now())
    lease_sweep.sweep(now=clock.now())

    assert (posted.records, posted.transactions, posted.charged_nano) == (3, 3, 88 * CENT)
    assert (_balance(market, "promo_credit"), _balance(market, "customer_credit")) == (0, 22 * CENT)
    assert list(found()) == []
