"""The one kind of admin page here: it shows rows and lets nobody change them."""

from typing import TYPE_CHECKING, ClassVar

from django.contrib.admin import ModelAdmin
from django.db.models import Model
from django.http import HttpRequest

from portal.operators.admin.site import site

if TYPE_CHECKING:
    _Admin = ModelAdmin[Model]
else:
    _Admin = ModelAdmin


class LookUp(_Admin):
    """Read-only for everyone, money and all: what may change has a page and a service."""

    list_per_page: ClassVar[int] = 50
    show_full_result_count: ClassVar[bool] = False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Let operators look; the site lets nobody else in."""
        return True

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show every room."""
        return True

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Refuse."""
        return False


def show(
    model: type[Model],
    *columns: str,
    search: tuple[str, ...] = (),
    filters: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
) -> None:
    """Register a table: its columns, what is searched and filtered, and which fields are never shown."""
    attributes = {
        "list_display": columns,
        "search_fields": search,
        "list_filter": filters,
        "exclude": hidden,
        "list_select_related": True,
    }
    site.register(model, type(f"{model.__name__}LookUp", (LookUp,), attributes))
