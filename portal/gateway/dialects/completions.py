"""`/v1/completions` as its customers read it."""

from portal.gateway.dialects.openai import Envelope


class CompletionsDialect(Envelope):
    """Text completions: pieces and whole answers are of one kind."""

    __slots__ = ()

    chunk_kind = "text_completion"
    answer_kind = "text_completion"
