"""Where Stripe sends events."""

from django.urls import path

from portal.webhooks import views

app_name = "webhooks"
urlpatterns = [
    path("stripe/", views.platform, name="platform"),
    path("stripe/connect/", views.connect, name="connect"),
    path("stripe/events/", views.events, name="events"),
]
