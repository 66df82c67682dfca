from django.apps import AppConfig


class OperatorsConfig(AppConfig):
    name = "portal.operators"
    label = "operators"
