import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("catalog", "0001_initial"),
        ("nodes", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="TokenBias",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("attempts", models.BigIntegerField(default=0)),
                ("claimed_prompt_tokens", models.BigIntegerField(default=0)),
                ("counted_prompt_tokens", models.BigIntegerField(default=0)),
                ("claimed_completion_tokens", models.BigIntegerField(default=0)),
                ("counted_completion_tokens", models.BigIntegerField(default=0)),
                ("allowed_tokens", models.BigIntegerField(default=0)),
                ("has_tolerance", models.BooleanField(default=True)),
                ("changed_at", models.DateTimeField(blank=True, null=True)),
                ("updated_at", models.DateTimeField()),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="catalog.catalogmodel"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="nodes.node"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("node", "model"), name="token_bias_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("allowed_tokens__gte", 0),
                            ("attempts__gte", 0),
                            ("claimed_completion_tokens__gte", 0),
                            ("claimed_prompt_tokens__gte", 0),
                            ("counted_completion_tokens__gte", 0),
                            ("counted_prompt_tokens__gte", 0),
                        ),
                        name="token_bias_not_negative",
                    ),
                ],
            },
        ),
    ]
