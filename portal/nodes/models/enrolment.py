"""How a machine joins and proves itself: tokens, challenges and sessions; only hashes are stored."""

from django.db import models


class EnrolmentToken(models.Model):
    """A single-use, expiring token; `token_hash` is the hex SHA-256."""

    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="enrolment_tokens")
    public_id = models.CharField(max_length=40, unique=True)
    token_hash = models.CharField(max_length=64, unique=True)
    label = models.CharField(max_length=80, blank=True)
    created_by = models.ForeignKey("accounts.User", null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    node = models.ForeignKey("nodes.Node", null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    def __str__(self) -> str:
        return self.public_id


class SessionChallenge(models.Model):
    """A server nonce that one session request may answer once."""

    node = models.ForeignKey("nodes.Node", on_delete=models.CASCADE, related_name="+")
    nonce = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.nonce[:8]


class NodeSession(models.Model):
    """One session of an agent. The newest `generation` wins; the token (hashed) lives ten minutes."""

    node = models.ForeignKey("nodes.Node", on_delete=models.CASCADE, related_name="sessions")
    generation = models.BigIntegerField()
    token_hash = models.CharField(max_length=64, unique=True)
    instance = models.CharField(max_length=64)
    address = models.GenericIPAddressField(null=True, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "generation"], name="session_generation_once")]
        ordering = ["-generation"]

    def __str__(self) -> str:
        return f"{self.node_id} generation {self.generation}"
