"""The usage table: partitioned by day, append-only, charged at most once a request.

`opened_on` is in every unique index because PostgreSQL asks it of a partitioned table; it is fixed when the spool
opens the attempt, so a replay always meets the row it was before.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

TABLE = """
CREATE FUNCTION metering_sum(amounts bigint[]) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(sum(amount), 0) FROM unnest(amounts) AS amount);

CREATE TABLE metering_usagerecord (
    opened_on date NOT NULL,
    request_id uuid NOT NULL,
    attempt smallint NOT NULL,
    spool_id varchar(40) NOT NULL,
    spool_seq bigint NOT NULL,
    organization_id bigint NOT NULL,
    api_key_id bigint NOT NULL,
    provider_id bigint NOT NULL,
    node_id bigint NOT NULL,
    model_id bigint NOT NULL,
    price_version_id bigint NOT NULL,
    share_bps integer NOT NULL,
    lease_ids bigint[] NOT NULL,
    lease_charges bigint[] NOT NULL,
    budget_lease_ids bigint[] NOT NULL,
    budget_charges bigint[] NOT NULL,
    prompt_tokens integer NOT NULL,
    cached_tokens integer NOT NULL,
    completion_tokens integer NOT NULL,
    claimed_prompt_tokens integer,
    claimed_cached_tokens integer,
    claimed_completion_tokens integer,
    counted_prompt_tokens integer,
    counted_completion_tokens integer,
    expected_cached_tokens integer,
    delivered_bytes bigint NOT NULL,
    token_source varchar(8) NOT NULL,
    hold_nano bigint NOT NULL,
    charge_nano bigint NOT NULL,
    provider_nano bigint NOT NULL,
    platform_nano bigint NOT NULL,
    outcome varchar(16) NOT NULL,
    error_code varchar(48) NOT NULL,
    is_stream boolean NOT NULL,
    endpoint varchar(24) NOT NULL,
    node_class varchar(16) NOT NULL,
    country varchar(2) NOT NULL,
    client_request_id varchar(128) NOT NULL,
    opened_at timestamptz NOT NULL,
    first_token_at timestamptz,
    closed_at timestamptz NOT NULL,
    routing jsonb,
    tunnel_proof varchar(120),
    content_hash varchar(64) NOT NULL,
    PRIMARY KEY (opened_on, request_id, attempt),
    CONSTRAINT usage_split_whole CHECK (charge_nano = provider_nano + platform_nano),
    CONSTRAINT usage_within_hold CHECK (provider_nano >= 0 AND platform_nano >= 0 AND charge_nano <= hold_nano),
    CONSTRAINT usage_tokens_sound CHECK (
        prompt_tokens >= 0 AND completion_tokens >= 0 AND cached_tokens BETWEEN 0 AND prompt_tokens
    ),
    CONSTRAINT usage_leases_pay CHECK (
        cardinality(lease_ids) > 0 AND cardinality(lease_ids) = cardinality(lease_charges)
        AND metering_sum(lease_charges) = charge_nano AND 0 <= ALL (lease_charges)
    ),
    CONSTRAINT usage_budgets_named CHECK (
        cardinality(budget_lease_ids) = cardinality(budget_charges) AND 0 <= ALL (budget_charges)
    ),
    CONSTRAINT usage_share_sound CHECK (share_bps BETWEEN 0 AND 10000)
) PARTITION BY RANGE (opened_on);

CREATE UNIQUE INDEX usage_charged_once ON metering_usagerecord (opened_on, request_id) WHERE charge_nano > 0;
CREATE INDEX usage_by_request ON metering_usagerecord (request_id);
CREATE INDEX usage_by_organization ON metering_usagerecord (organization_id, closed_at DESC, request_id);
CREATE INDEX usage_by_provider ON metering_usagerecord (provider_id, closed_at DESC, request_id);
CREATE INDEX usage_by_end ON metering_usagerecord USING brin (closed_at);
CREATE INDEX usage_by_lease ON metering_usagerecord USING gin (lease_ids);
CREATE INDEX usage_by_budget_lease ON metering_usagerecord USING gin (budget_lease_ids);

CREATE TABLE metering_usagerecord_default PARTITION OF metering_usagerecord DEFAULT;
"""

APPEND_ONLY = """
CREATE FUNCTION metering_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'usage records are append-only: % refused', TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Correct a charge by a reversal in the ledger.';
END
$$;
CREATE TRIGGER usage_append_only BEFORE UPDATE OR DELETE ON metering_usagerecord
    FOR EACH ROW EXECUTE FUNCTION metering_refuse_change();
CREATE TRIGGER usage_never_emptied BEFORE TRUNCATE ON metering_usagerecord
    FOR EACH STATEMENT EXECUTE FUNCTION metering_refuse_change();
"""

FIRST_DAYS = """
DO $$
DECLARE
    day date;
BEGIN
    FOR day IN SELECT generate_series((now() AT TIME ZONE 'utc')::date, (now() AT TIME ZONE 'utc')::date + 14, '1 day')
    LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF metering_usagerecord FOR VALUES FROM (%L) TO (%L)',
            'metering_usagerecord_' || to_char(day, 'YYYYMMDD'), day, day + 1
        );
    END LOOP;
END
$$;
"""

DROP = """
DROP TABLE metering_usagerecord;
DROP FUNCTION metering_refuse_change();
DROP FUNCTION metering_sum(bigint[]);
"""


class Migration(migrations.Migration):
    dependencies = [("metering", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(TABLE, migrations.RunSQL.noop),
                migrations.RunSQL(APPEND_ONLY, DROP),
                migrations.RunSQL(FIRST_DAYS, migrations.RunSQL.noop),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="UsageRecord",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "opened_on",
                                "request_id",
                                "attempt",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("opened_on", models.DateField()),
                        ("request_id", models.UUIDField()),
                        ("attempt", models.SmallIntegerField()),
                        ("spool_id", models.CharField(max_length=40)),
                        ("spool_seq", models.BigIntegerField()),
                        ("organization_id", models.BigIntegerField()),
                        ("api_key_id", models.BigIntegerField()),
                        ("provider_id", models.BigIntegerField()),
                        ("node_id", models.BigIntegerField()),
                        ("model_id", models.BigIntegerField()),
                        ("price_version_id", models.BigIntegerField()),
                        ("share_bps", models.IntegerField()),
                        ("lease_ids", ArrayField(models.BigIntegerField(), size=None)),
                        ("lease_charges", ArrayField(models.BigIntegerField(), size=None)),
                        ("budget_lease_ids", ArrayField(models.BigIntegerField(), size=None)),
                        ("budget_charges", ArrayField(models.BigIntegerField(), size=None)),
                        ("prompt_tokens", models.IntegerField()),
                        ("cached_tokens", models.IntegerField()),
                        ("completion_tokens", models.IntegerField()),
                        ("claimed_prompt_tokens", models.IntegerField(null=True)),
                        ("claimed_cached_tokens", models.IntegerField(null=True)),
                        ("claimed_completion_tokens", models.IntegerField(null=True)),
                        ("counted_prompt_tokens", models.IntegerField(null=True)),
                        ("counted_completion_tokens", models.IntegerField(null=True)),
                        ("expected_cached_tokens", models.IntegerField(null=True)),
                        ("delivered_bytes", models.BigIntegerField()),
                        (
                            "token_source",
                            models.CharField(
                                choices=[
                                    ("claim", "Claim"),
                                    ("count", "Count"),
                                    ("bound", "Bound"),
                                    ("mark", "Mark"),
                                    ("none", "None"),
                                ],
                                max_length=8,
                            ),
                        ),
                        ("hold_nano", models.BigIntegerField()),
                        ("charge_nano", models.BigIntegerField()),
                        ("provider_nano", models.BigIntegerField()),
                        ("platform_nano", models.BigIntegerField()),
                        (
                            "outcome",
                            models.CharField(
                                choices=[
                                    ("completed", "Completed"),
                                    ("customer_abort", "Customer Abort"),
                                    ("credit_end", "Credit End"),
                                    ("platform_crash", "Platform Crash"),
                                    ("node_fault", "Node Fault"),
                                    ("node_timeout", "Node Timeout"),
                                    ("node_busy", "Node Busy"),
                                    ("empty", "Empty"),
                                    ("customer_error", "Customer Error"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("error_code", models.CharField(max_length=48)),
                        ("is_stream", models.BooleanField()),
                        ("endpoint", models.CharField(max_length=24)),
                        ("node_class", models.CharField(max_length=16)),
                        ("country", models.CharField(max_length=2)),
                        ("client_request_id", models.CharField(max_length=128)),
                        ("opened_at", models.DateTimeField()),
                        ("first_token_at", models.DateTimeField(null=True)),
                        ("closed_at", models.DateTimeField()),
                        ("routing", models.JSONField(null=True)),
                        ("tunnel_proof", models.CharField(max_length=120, null=True)),
                        ("content_hash", models.CharField(max_length=64)),
                    ],
                    options={
                        "db_table": "metering_usagerecord",
                    },
                ),
            ],
        ),
    ]
