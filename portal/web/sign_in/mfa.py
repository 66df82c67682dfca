"""Second factors: their secrets are sealed at rest."""

from allauth.mfa.adapter import DefaultMFAAdapter

from portal.core import sealing


class PoolMFAAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth ships no types
    """Seals with SECRET_KEY; SECRET_KEY_FALLBACKS still open what older keys closed."""

    def encrypt(self, text: str) -> str:
        """Return the secret as it is stored."""
        return sealing.seal(text, purpose="mfa")

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret as it is used."""
        return sealing.unseal(encrypted_text, purpose="mfa")
