"""Credit notes are added to, never edited: the database itself refuses it."""

from django.db import migrations

GUARD = """
CREATE FUNCTION payouts_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Write a correction that names the note instead.';
END
$$;

CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON payouts_creditnote
    FOR EACH ROW EXECUTE FUNCTION payouts_refuse_change();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON payouts_creditnote
    FOR EACH STATEMENT EXECUTE FUNCTION payouts_refuse_change();
"""

DROP_GUARD = """
DROP TRIGGER append_only_table ON payouts_creditnote;
DROP TRIGGER append_only_rows ON payouts_creditnote;
DROP FUNCTION payouts_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("payouts", "0001_initial")]

    operations = [migrations.RunSQL(GUARD, DROP_GUARD)]
