"""A form's field for an amount of money, read as nano units."""

from django import forms

from portal.core.money import nano_from_text


class AmountField(forms.CharField):
    """An amount such as 0.25, zero or more, with at most nine decimals."""

    def __init__(self, *, label: str, required: bool = True, initial: str | None = None, help_text: str = "") -> None:
        super().__init__(label=label, required=required, initial=initial, help_text=help_text, max_length=24)

    def clean(self, value: object) -> int:
        """Return nano units. Raises ValidationError."""
        text = str(super().clean(value))
        try:
            amount = nano_from_text(text)
        except ValueError as error:
            raise forms.ValidationError("Write an amount such as 0.25, with at most nine decimals.") from error
        if amount < 0:
            raise forms.ValidationError("An amount cannot be negative.")
        return amount
