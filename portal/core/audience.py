"""Who a route is for: every view says it once, and the route matrix test reads it from there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

View = TypeVar("View", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Audience:
    """`kind` is public, person, organization, operator or machine; `role` and `post_role` are an organization's.

    For a machine `proof` says what it must bring: a node's session, an enrolment token, a signature of Stripe.
    """

    kind: str
    side: str = ""
    role: str = ""
    post_role: str = ""
    proof: str = ""


PUBLIC = Audience("public")
PERSON = Audience("person")
OPERATOR = Audience("operator")


def machine(proof: str) -> Audience:
    """Return the audience of a route that only a machine with `proof` may call."""
    return Audience("machine", proof=proof)


def declare(audience: Audience) -> Callable[[View], View]:
    """Mark a view (or a class-based view's `as_view()` result) with its audience; it does not guard it."""

    def mark(view: View) -> View:
        view.audience = audience  # type: ignore[attr-defined]  # the mark is what the matrix test looks for
        return view

    return mark


def of(view: object) -> Audience | None:
    """Return the audience a view has declared."""
    found = getattr(view, "audience", None)
    return found if isinstance(found, Audience) else None
