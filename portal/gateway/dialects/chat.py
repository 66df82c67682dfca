"""`/v1/chat/completions` as its customers read it."""

from portal.gateway.dialects.openai import Envelope


class ChatDialect(Envelope):
    """Chat completions."""

    __slots__ = ()

    chunk_kind = "chat.completion.chunk"
    answer_kind = "chat.completion"
