"""People, organizations, keys, audit and mail."""

from portal.accounts.models import (
    ApiKey,
    Invitation,
    KeyAlert,
    KeySighting,
    Membership,
    Organization,
    Project,
    RetiredSecret,
    User,
)
from portal.audit.models import AuditEvent
from portal.notifications.models import Message
from portal.operators.admin.look_up import show

show(
    User,
    "email", "public_id", "name", "is_active", "is_operator", "created_at",
    search=("email", "public_id"),
    filters=("is_operator", "is_active"),
    hidden=("password",),
)  # fmt: skip
show(
    Organization,
    "name", "public_id", "state", "country", "is_customer", "is_provider", "created_at",
    search=("name", "public_id"),
    filters=("state",),
)  # fmt: skip
show(Membership, "organization", "user", "role", "created_at", search=("user__email", "organization__public_id"))
show(Invitation, "email", "organization", "role", "expires_at", "accepted_at", "revoked_at", hidden=("token_hash",))
show(
    ApiKey,
    "public_id", "name", "organization", "node_classes", "expires_at", "revoked_at",
    search=("public_id", "name", "organization__public_id"),
    hidden=("digest",),
)  # fmt: skip
show(Project, "public_id", "name", "organization", "budget_cap_nano", "archived_at", search=("public_id", "name"))
show(RetiredSecret, "key", "retired_at", "works_until", search=("key__public_id",), hidden=("digest",))
show(KeySighting, "key", "network", "country", "first_seen_at", "last_seen_at", search=("key__public_id", "network"))
show(KeyAlert, "created_at", "key", "kind", "subject", search=("key__public_id", "subject"), filters=("kind",))
show(AuditEvent, "at", "event", "actor", "subject", "organization", search=("subject", "actor", "organization"))
show(Message, "created_at", "to", "template", "sent_at", "tries", "error", search=("to", "key"), hidden=("context",))
