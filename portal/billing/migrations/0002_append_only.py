"""History is added to, never edited: the database itself refuses what the ledger must never do."""

from django.db import migrations

FUNCTIONS = """
CREATE FUNCTION billing_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Post a reversal that names the entry instead.';
END
$$;

CREATE FUNCTION billing_require_open_period() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    closed_until timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('poolhouse.billing.periods', 0));
    SELECT max(ends_at) INTO closed_until FROM billing_closedperiod;
    IF NEW.effective_at < closed_until THEN
        RAISE EXCEPTION 'the period of % is closed', NEW.effective_at
            USING ERRCODE = 'restrict_violation', HINT = 'Let it take effect in the open period.';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER ledger_tx_open_period BEFORE INSERT ON billing_ledgertx
    FOR EACH ROW EXECUTE FUNCTION billing_require_open_period();
"""

DROP_FUNCTIONS = """
DROP TRIGGER ledger_tx_open_period ON billing_ledgertx;
DROP FUNCTION billing_require_open_period();
DROP FUNCTION billing_refuse_change();
"""

APPEND_ONLY = (
    "billing_ledgertx",
    "billing_ledgertransfer",
    "billing_usageposting",
    "billing_priceversion",
    "billing_priceend",
    "billing_shareversion",
    "billing_tiermembership",
    "billing_availabilityrate",
    "billing_availabilityhour",
    "billing_closedperiod",
    "billing_statement",
    "billing_periodbalance",
    "billing_booksday",
)

GUARD = """
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
"""

DROP_GUARD = """
DROP TRIGGER append_only_table ON {table};
DROP TRIGGER append_only_rows ON {table};
"""

ONE_CURRENCY = """
ALTER TABLE billing_ledgeraccount ADD CONSTRAINT ledger_account_currency UNIQUE (id, currency);
ALTER TABLE billing_ledgertransfer
    ADD CONSTRAINT ledger_debit_currency FOREIGN KEY (debit_account_id, currency)
        REFERENCES billing_ledgeraccount (id, currency),
    ADD CONSTRAINT ledger_credit_currency FOREIGN KEY (credit_account_id, currency)
        REFERENCES billing_ledgeraccount (id, currency);
"""

DROP_ONE_CURRENCY = """
ALTER TABLE billing_ledgertransfer DROP CONSTRAINT ledger_credit_currency, DROP CONSTRAINT ledger_debit_currency;
ALTER TABLE billing_ledgeraccount DROP CONSTRAINT ledger_account_currency;
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_initial")]

    operations = [
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        *[migrations.RunSQL(GUARD.format(table=table), DROP_GUARD.format(table=table)) for table in APPEND_ONLY],
        migrations.RunSQL(ONE_CURRENCY, DROP_ONE_CURRENCY),
    ]
