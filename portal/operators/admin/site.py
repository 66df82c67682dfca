"""The operator's view of the tables, on Django's admin. It is for looking things up; changes go through services."""

from functools import wraps
from typing import Any, cast

from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
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

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:  # noqa: FBT001, FBT002  Django's signature
        """Guard a view: anonymous visitors sign in at the portal, all but operators are refused."""
        inner = super().admin_view(view, cacheable)

        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            if not self.has_permission(request):
                raise PermissionDenied
            return cast("HttpResponse", inner(request, *args, **kwargs))

        return guarded

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Lead to the portal's own sign-in; the tables have none."""
        del extra_context
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        if request.user.is_authenticated:
            return redirect("operator_admin:index")
        return redirect_to_login(reverse("operator_admin:index"))


site = TablesSite(name="operator_admin")
