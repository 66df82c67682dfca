"""Queries that are asked many times a second.

Django makes the SQL of a queryset anew each time, which costs it several times what the answer does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model, QuerySet
from django.db.models.query import get_related_populators  # type: ignore[attr-defined]  # the stubs leave it out
from django.db.transaction import TransactionManagementError

M = TypeVar("M", bound=Model)


class KeptQuery(Generic[M]):
    """A queryset whose SQL is made once, at its first use, and then asked with another value each time.

    `make` gives a queryset with one value in all its filters, any of the right type. What is joined by
    `select_related`, left out by `defer` and annotated comes as with the queryset itself.
    """

    def __init__(self, make: Callable[[], QuerySet[M]]) -> None:
        self._make = make
        self._made: _Made | None = None

    def rows(self, value: int | str) -> list[M]:
        """Ask with this value. Raises TransactionManagementError where rows are to be locked by no transaction."""
        made = self._made
        if made is None:
            made = self._made = _Made(self._make())
        if made.locks and not connection.in_atomic_block:
            raise TransactionManagementError("rows are locked inside a transaction only")
        with connection.cursor() as cursor:
            cursor.execute(made.sql, [value])
            return [made.read(row) for row in cursor.fetchall()]


class _Made:
    """What Django makes of a queryset: its SQL, and how a row of the answer becomes objects."""

    def __init__(self, rows: QuerySet[Any]) -> None:
        compiler = rows.query.get_compiler(DEFAULT_DB_ALIAS)
        self.sql, params = compiler.as_sql()
        if len(params) != 1:
            raise TypeError(f"a query of {len(params)} values cannot be kept, only one of one value")
        self.locks = rows.query.select_for_update
        select, info = compiler.select, compiler.klass_info
        places: Sequence[int] = info["select_fields"]
        self._model: type[Model] = info["model"]
        self._own = slice(places[0], places[-1] + 1)
        self._names = [part[0].target.attname for part in select[self._own]]
        self._joined = get_related_populators(info, select, DEFAULT_DB_ALIAS)
        self._annotated: Mapping[str, int] = compiler.annotation_col_map or {}
        self._converters = list(compiler.get_converters([part[0] for part in select]).items())

    def read(self, values: Sequence[Any]) -> Any:
        """Return the object of one row, with what is joined to it."""
        row = list(values)
        for place, (converters, expression) in self._converters:
            for convert in converters:
                row[place] = convert(row[place], expression, connection)
        found = self._model.from_db(DEFAULT_DB_ALIAS, self._names, row[self._own])
        for joined in self._joined:
            joined.populate(row, found)
        for name, place in self._annotated.items():
            setattr(found, name, row[place])
        return found
