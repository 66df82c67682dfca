"""No foreign key points upward: where a lower row names a higher one, it stores the public id as text."""

from django.apps import apps
from django.conf import settings
from django.db import models

# As the import contract has them, top first; rooms of one line may not name each other.
LAYERS = [
    {"webhooks"},
    {"payouts"},
    {"billing"},
    {"trust"},
    {"metering"},
    {"nodes"},
    {"catalog", "providers"},
    {"accounts"},
    {"audit", "notifications"},
    {"auth", "contenttypes"},
]
HEIGHT = {room: height for height, rooms in enumerate(reversed(LAYERS)) for room in rooms}


def keys_of_our_rooms() -> list[tuple[str, str, str]]:
    """Return (room, field, room pointed at) of every relation between models."""
    ours = {config.label for config in apps.get_app_configs() if config.name in settings.ROOMS}
    return [
        (model._meta.app_label, str(field), field.related_model._meta.app_label)
        for model in apps.get_models()
        if model._meta.app_label in ours
        for field in model._meta.get_fields(include_parents=False)
        if isinstance(field, models.ForeignKey | models.ManyToManyField) and isinstance(field.related_model, type)
    ]


def test_every_room_has_its_place() -> None:
    assert {name.removeprefix("portal.") for name in settings.ROOMS} <= set(HEIGHT)


def test_keys_point_down() -> None:
    up = [
        f"{field} points from {room} to {target}"
        for room, field, target in keys_of_our_rooms()
        if room != target and HEIGHT[target] >= HEIGHT[room]
    ]

    assert up == []


def test_there_are_keys_to_look_at() -> None:
    assert len(keys_of_our_rooms()) > 20
