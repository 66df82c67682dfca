"""ISO 3166-1 country codes, as people type them."""

from portal.core.errors import InvalidValue

_LENGTH = 2


def require_country(text: str) -> str:
    """Return the two-letter code in capitals. Raises InvalidValue."""
    code = text.strip().upper()
    if len(code) != _LENGTH or not (code.isascii() and code.isalpha()):
        raise InvalidValue("give the country as two letters, such as DE", param="country")
    return code
