"""Make people operators of the pool, and take it back."""

from datetime import datetime

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from portal.accounts.models import User
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import InvalidValue, NotFound


def create_operator(*, email: str, password: str, name: str, actor: Actor, now: datetime) -> User:
    """Create the person, or make an existing one an operator and set their password. Raises InvalidValue."""
    email = email.strip().lower()
    try:
        validate_password(password, User(email=email, name=name))
    except ValidationError as error:
        raise InvalidValue(" ".join(error.messages), param="password") from error
    with transaction.atomic():
        user = User.objects.select_for_update().filter(email=email).first() or User(email=email, created_at=now)
        user.name = name or user.name
        user.is_operator = True
        user.set_password(password)
        user.save()
        audit.record(actor=actor, event="operator.created", subject=user.public_id, detail={"email": email}, now=now)
    return user


def revoke_operator(*, email: str, actor: Actor, now: datetime) -> User:
    """Take the operator's rights from a person. Raises NotFound."""
    with transaction.atomic():
        user = User.objects.select_for_update().filter(email=email.strip().lower(), is_operator=True).first()
        if user is None:
            raise NotFound(f"{email} is no operator")
        user.is_operator = False
        user.save(update_fields=["is_operator"])
        audit.record(actor=actor, event="operator.revoked", subject=user.public_id, detail={"email": email}, now=now)
    return user
