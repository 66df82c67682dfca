from django.apps import AppConfig


class PayoutsConfig(AppConfig):
    name = "portal.payouts"
    label = "payouts"
