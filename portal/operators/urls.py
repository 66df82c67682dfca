from django.urls import URLPattern

app_name = "operators"
urlpatterns: list[URLPattern] = []
