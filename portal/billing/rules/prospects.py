"""What a machine would earn with a model, net of electricity: a sum of stated assumptions, every step an integer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.billing.rules.rating import PriceTerms, charge_nano
from portal.core.money import split_share

HOURS_A_MONTH = 730
IDLE_PERCENT = 10  # what a GPU draws while it waits, of what it draws at work
_SECONDS_AN_HOUR = 3600
_MILLIWATTS_A_KILOWATT = 1_000_000
_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody knows beforehand: how busy the machine is, what requests are like, what else draws power.

    `kwh_nano` is the price of a kilowatt hour in nano units of the pool's currency.
    """

    kwh_nano: int
    utilization_percent: int = 30
    prompt_tokens: int = 1500
    completion_tokens: int = 500
    concurrency: int = 8
    other_watts: int = 100


@dataclass(frozen=True, slots=True)
class Prospect:
    """The sum for one model: what passes in an hour, what a request earns, what the GPUs it uses draw.

    `request_nano` is what a customer pays for one request and `earned_request_nano` the provider's share of it.
    """

    requests: int
    prompt_tokens: int
    completion_tokens: int
    request_nano: int
    share_bps: int
    earned_request_nano: int
    earned_nano: int
    milliwatts: int
    electricity_nano: int

    @property
    def net_nano(self) -> int:
        """What is left of an hour."""
        return self.earned_nano - self.electricity_nano

    @property
    def net_month_nano(self) -> int:
        """What is left of a month."""
        return self.net_nano * HOURS_A_MONTH


def prospect(
    *, requests_a_second: float, price: PriceTerms, share_bps: int, gpu_watts: int, given: Assumptions
) -> Prospect:
    """Return the sum for an engine that passes so many requests at full load on GPUs of so many watts together."""
    requests = int(requests_a_second * _SECONDS_AN_HOUR * given.utilization_percent / _PERCENT)
    request_nano = charge_nano(price=price, prompt=given.prompt_tokens, cached=0, completion=given.completion_tokens)
    earned, _ = split_share(request_nano, share_bps)
    drawn = gpu_milliwatts(watts=gpu_watts, utilization_percent=given.utilization_percent)
    return Prospect(
        requests=requests,
        prompt_tokens=requests * given.prompt_tokens,
        completion_tokens=requests * given.completion_tokens,
        request_nano=request_nano,
        share_bps=share_bps,
        earned_request_nano=earned,
        earned_nano=requests * earned,
        milliwatts=drawn,
        electricity_nano=electricity_nano(milliwatts=drawn, kwh_nano=given.kwh_nano),
    )


def gpu_milliwatts(*, watts: int, utilization_percent: int) -> int:
    """Return what GPUs draw on average: their full power while they work, a share of it while they wait."""
    return watts * (10 * utilization_percent + IDLE_PERCENT * (_PERCENT - utilization_percent) // 10)


def electricity_nano(*, milliwatts: int, kwh_nano: int) -> int:
    """Return what an hour of that power costs, rounded half up."""
    return (milliwatts * kwh_nano + _MILLIWATTS_A_KILOWATT // 2) // _MILLIWATTS_A_KILOWATT


@dataclass(frozen=True, slots=True)
class Option:
    """A model on so many GPUs of a kind, and what is left of an hour then."""

    model: str
    kind: str
    gpus: int
    net_nano: int


def fill(options: Sequence[Option], *, gpus: Mapping[str, int]) -> list[int]:
    """Return which options to run together on so many GPUs of each kind: the best for each GPU first, a model once."""
    order = sorted(range(len(options)), key=lambda at: (-options[at].net_nano / options[at].gpus, at))
    chosen: list[int] = []
    free, models = dict(gpus), set[str]()
    for at in order:
        one = options[at]
        if one.net_nano > 0 and one.model not in models and one.gpus <= free.get(one.kind, 0):
            chosen.append(at)
            free[one.kind] -= one.gpus
            models.add(one.model)
    return chosen
