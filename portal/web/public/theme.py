"""The choice of light, dark or the system's own theme, kept in a cookie."""

from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from portal.web.access import public_page
from portal.web.shell import THEME_COOKIE, THEMES

_YEAR_S = 365 * 86_400


@public_page
@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    """Store the theme and go back to the page."""
    back = request.headers.get("referer", "")
    is_ours = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    response = HttpResponseRedirect(urlsplit(back).path if is_ours else "/")
    theme = request.POST.get("theme", "auto")
    if theme in THEMES:
        response.set_cookie(
            THEME_COOKIE, theme, max_age=_YEAR_S, samesite="Lax", httponly=True, secure=request.is_secure()
        )
    return response


urlpatterns = [path("theme", choose_theme, name="theme")]
