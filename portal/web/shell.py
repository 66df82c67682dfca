"""What surrounds each page: navigation of its side, the organizations to switch to, the theme."""

from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from portal.accounts.models import Membership, Organization

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "theme"


@dataclass(frozen=True, slots=True)
class Link:
    """One entry of the navigation."""

    name: str
    url: str
    icon: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Shell:
    """What base.html prints around a page."""

    pool: str
    theme: str
    side: str
    groups: list[list[Link]]
    sides: list[Link]
    organization: Organization | None
    memberships: list[Membership]
    role: str
    is_operator: bool
    has_font: bool


_TEAM = [("Team", "organization:team", "users"), ("Organization", "organization:settings", "building-2")]
_ENTRIES: dict[str, list[list[tuple[str, str, str]]]] = {
    "provider": [
        [
            ("Overview", "provider:overview", "layout-dashboard"),
            ("Nodes", "provider:nodes", "server"),
            ("Add a node", "provider:enrol", "plus"),
        ],
        [
            ("Earnings", "provider:earnings", "chart-column"),
            ("Share", "provider:share", "percent"),
            ("Requests", "provider:requests", "list"),
            ("Payouts", "provider:payouts", "banknote"),
            ("Statements", "provider:statements", "file-text"),
        ],
        [("Profile", "provider:profile", "id-card"), ("Tax", "provider:tax", "receipt"), *_TEAM],
    ],
    "customer": [
        [
            ("Overview", "customer:overview", "layout-dashboard"),
            ("API keys", "customer:keys", "key-round"),
            ("Projects", "customer:projects", "folder"),
            ("Private nodes", "customer:private-nodes", "server"),
            ("Prices", "customer:prices", "tag"),
            ("Usage", "customer:usage", "chart-column"),
        ],
        [("Credit", "customer:credit", "wallet"), ("Statements", "customer:statements", "file-text")],
        _TEAM,
    ],
    "operator": [
        [
            ("Overview", "operators:overview", "layout-dashboard"),
            ("Providers", "operators:providers", "handshake"),
            ("Nodes", "operators:nodes", "server"),
            ("Checks", "operators:checks", "gauge"),
            ("Engine", "operators:engines", "cpu"),
            ("Agent releases", "operators:releases", "package"),
            ("Customers", "operators:customers", "users"),
        ],
        [
            ("Models", "operators:models", "boxes"),
            ("Placement", "operators:placement", "waypoints"),
            ("Prices", "operators:prices", "tag"),
            ("Shares", "operators:shares", "percent"),
            ("Margin", "operators:margin", "scale"),
        ],
        [
            ("Payout run", "operators:payouts", "banknote"),
            ("Bank and bills", "operators:credit", "landmark"),
            ("Disputes", "operators:disputes", "shield-alert"),
            ("Ledger", "operators:ledger", "book-open"),
            ("Tax", "operators:tax", "receipt"),
        ],
        [("Tables", "operator_admin:index", "table-2")],
    ],
}

# Pages that belong to an entry although their addresses do not begin with its own.
_BELOW = {
    "provider:nodes": ("/provider/prices/", "/provider/deployments/"),
    "operators:shares": ("/operator/availability/",),
    "operators:disputes": ("/operator/refunds/", "/operator/related/"),
    "customer:credit": ("/customer/refunds/",),
}


def shell(request: HttpRequest) -> dict[str, object]:
    """Return the context of base.html; reads nothing that the guards have not read."""
    side = getattr(request, "side", "")
    membership: Membership | None = getattr(request, "membership", None)
    theme = request.COOKIES.get(THEME_COOKIE, "auto")
    user = getattr(request, "user", None)
    return {
        "shell": Shell(
            pool=settings.POOL_NAME,
            theme=theme if theme in THEMES else "auto",
            side=side,
            groups=_groups(side, request.path),
            sides=_sides(side, membership),
            organization=membership.organization if membership else None,
            memberships=getattr(request, "memberships", []),
            role=membership.get_role_display() if membership else "",
            is_operator=bool(user and user.is_authenticated and user.is_operator),
            has_font=_has_font(),
        )
    }


@cache
def _has_font() -> bool:
    """Tell whether `build_assets` has made the font; without it the system's font is used."""
    return (settings.BASE_DIR / "static" / "generated" / "font.css").exists()


def _groups(side: str, path: str) -> list[list[Link]]:
    return [[_link(path, *entry) for entry in group] for group in _ENTRIES.get(side, [])]


def _link(path: str, name: str, route: str, icon: str) -> Link:
    url = reverse(route)
    is_home = route.endswith(":overview")
    is_current = path == url if is_home else path.startswith((url, *_BELOW.get(route, ())))
    return Link(name=name, url=url, icon=icon, is_current=is_current)


def _sides(side: str, membership: Membership | None) -> list[Link]:
    if membership is None:
        return []
    organization = membership.organization
    open_sides = [("customer", organization.is_customer), ("provider", organization.is_provider or side == "provider")]
    shown = [name for name, is_open in open_sides if is_open]
    if len(shown) == 1 and side in shown:
        return []
    return [
        Link(name=name.capitalize(), url=reverse(f"{name}:overview"), icon="", is_current=name == side)
        for name in shown
    ]
