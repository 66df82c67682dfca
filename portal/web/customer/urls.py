from django.urls import URLPattern

app_name = "customer"
urlpatterns: list[URLPattern] = []
