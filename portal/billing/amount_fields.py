"""Form fields for amounts of money: typed as people write them, read as minor units."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.conf import settings

from portal.core import money
from portal.core.errors import DomainError


class AmountField(forms.CharField):
    """An amount in the pool's currency; its value is minor units, None where it was left empty."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=14, **kwargs)
        self.widget.attrs |= {"inputmode": "decimal", "autocomplete": "off"}

    def clean(self, value: Any) -> Any:
        """Read the amount as minor units."""
        text = str(super().clean(value)).strip().replace(",", ".")
        if not text:
            return None
        try:
            minor, rest = money.minor_from_nano(money.nano_from_text(text), settings.CURRENCY)
        except ValueError as error:
            raise forms.ValidationError("Write an amount such as 25 or 12.50.") from error
        if rest:
            raise forms.ValidationError(f"{settings.CURRENCY.upper()} has no smaller unit than that.")
        return minor


def typed(minor: int) -> str:
    """Write minor units as they would be typed."""
    return money.decimal_text(money.nano_from_minor(minor, settings.CURRENCY))


def take(form: forms.Form, do: Callable[[], object]) -> bool:
    """Do it and tell whether it was done; a refusal goes to the field that it names."""
    try:
        do()
    except DomainError as error:
        form.add_error(error.param if error.param in form.fields else None, error.sentences)
        return False
    return True
