"""What the sign-up form asks beside address and password."""

from allauth.core import context
from django import forms
from django.conf import settings
from django.http import HttpRequest

from portal.accounts.models import User
from portal.web.sign_in import invited


class SignUpFields(forms.Form):
    """Adds the name, and holds an invited person to the address that was invited."""

    name = forms.CharField(max_length=120, label="Your name", widget=forms.TextInput(attrs={"autocomplete": "name"}))
    field_order = ["name", "email", "password1"]

    def clean(self) -> dict[str, object] | None:
        """Refuse another address than the invited one where sign-up is by invitation."""
        cleaned = super().clean()
        invitation = invited.invitation_in(context.request) if settings.SIGNUP == "invite" else None
        email = str(self.cleaned_data.get("email", "")).lower()
        if invitation is not None and email and email != invitation.email:
            self.add_error("email", f"The invitation was sent to {invitation.email}. Sign up with that address.")
        return cleaned

    def signup(self, request: HttpRequest, user: User) -> None:
        """Store the name."""
        del request
        user.name = self.cleaned_data["name"].strip()
        user.save(update_fields=["name"])
