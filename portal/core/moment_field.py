"""A form's field for the moment from which something holds."""

from datetime import UTC, datetime

from django import forms


class MomentField(forms.DateTimeField):
    """A moment in UTC; left empty it is None, which means now."""

    def __init__(self, *, label: str = "From (UTC)", help_text: str) -> None:
        super().__init__(
            label=label,
            required=False,
            help_text=help_text,
            widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        )

    def clean(self, value: object) -> datetime | None:
        """Return the moment in UTC. Raises ValidationError."""
        moment: datetime | None = super().clean(value)
        return None if moment is None else moment.astimezone(UTC)
