"""The hosted pages: plain forms that a script can post (`action=…` to the page itself)."""

from collections.abc import Callable
from dataclasses import dataclass

from portal.sandbox.stripe_double import checkout_pages, provider_pages
from portal.sandbox.stripe_double.faults import Body, Refusal
from portal.sandbox.stripe_double.layout import NOTE, Page
from portal.sandbox.stripe_double.store import Store

__all__ = ["NOTE", "PREFIXES", "Page", "serve"]


@dataclass(frozen=True, slots=True)
class _Form:
    show: Callable[[Store, str], Page]
    post: Callable[[Store, str, Body], Page] | None = None


_PAGES = {
    "/c/pay/": _Form(checkout_pages.show, checkout_pages.post),
    "/c/3ds/": _Form(checkout_pages.show_challenge, checkout_pages.post_challenge),
    "/i/": _Form(checkout_pages.show_invoice),
    "/r/": _Form(checkout_pages.show_receipt),
    "/setup/": _Form(provider_pages.show_setup, provider_pages.post_setup),
    "/express/": _Form(provider_pages.show_express, provider_pages.post_express),
}
PREFIXES = tuple(_PAGES)


def serve(store: Store, path: str, form: Body | None) -> Page:
    """Answer a page, or what a form on it does. Raises Refusal."""
    prefix = next(prefix for prefix in PREFIXES if path.startswith(prefix))
    name, page = path.removeprefix(prefix).strip("/"), _PAGES[prefix]
    if form is None:
        return page.show(store, name)
    if page.post is None:
        raise Refusal(405, "", "This page takes no form.")
    return page.post(store, name, form)
