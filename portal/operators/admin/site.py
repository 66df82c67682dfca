"""The operator's view of the tables, on Django's admin. It is for looking things up; changes go through services."""

from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse


class TablesSite(AdminSite):
    """An admin site that only operators enter, through the portal's own sign-in."""

    site_header = "Tables"
    site_title = "Tables"
    index_title = "Tables"
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        """Let operators in, whatever Django's staff flag says."""
        return bool(request.user.is_authenticated and request.user.is_active and request.user.is_operator)

    def login(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        """Send anonymous visitors to the portal's sign-in and refuse everyone else."""
        if request.user.is_authenticated:
            raise PermissionDenied
        return redirect_to_login(request.GET.get("next") or reverse("operator_admin:index"))


site = TablesSite(name="operator_admin")
