"""Poolhouse's portal: the Django project and the gateway."""
