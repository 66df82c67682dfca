"""What the operator's and the providers' price pages share: the form, and what a price means for one request."""

from django import forms

from portal.billing.models import PriceVersion
from portal.billing.rules.rating import Terms, charge_nano
from portal.core.amount_field import AmountField
from portal.core.money import decimal_text, split_share

_SAMPLE = {"prompt": 1000, "cached": 0, "completion": 500}


class TermsForm(forms.Form):
    """A price per million tokens."""

    prompt = AmountField(label="Prompt, per 1M tokens")
    cached = AmountField(label="Cached prompt, per 1M tokens")
    completion = AmountField(label="Completion, per 1M tokens")
    request_fee = AmountField(label="Per request", initial="0")

    def terms(self) -> Terms:
        """Return the four amounts of a valid form."""
        amounts = (self.cleaned_data[name] for name in ("prompt", "cached", "completion", "request_fee"))
        return Terms(*amounts)


def initial_of(current: PriceVersion | None) -> dict[str, str]:
    """Return a price as the form shows it."""
    if current is None:
        return {}
    return {
        "prompt": decimal_text(current.prompt_nano_per_mtok),
        "cached": decimal_text(current.cached_nano_per_mtok),
        "completion": decimal_text(current.completion_nano_per_mtok),
        "request_fee": decimal_text(current.request_nano),
    }


def preview(terms: Terms, *, current: PriceVersion | None, share_bps: int) -> dict[str, int | None]:
    """Return what a request of 1,000 prompt and 500 completion tokens costs now and then, and who gets what of it."""
    charge = charge_nano(price=terms, **_SAMPLE)
    provider, platform = split_share(charge, share_bps)
    return {
        "now_nano": charge_nano(price=current, **_SAMPLE) if current else None,
        "then_nano": charge,
        "provider_nano": provider,
        "platform_nano": platform,
        "share_bps": share_bps,
    }
