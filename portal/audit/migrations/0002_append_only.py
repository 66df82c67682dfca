"""The audit log is added to, never edited: the database itself refuses everything else."""

from django.db import migrations

GUARD = """
CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Write another event instead.';
END
$$;
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON audit_auditevent
    FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON audit_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
"""

DROP_GUARD = """
DROP TRIGGER append_only_table ON audit_auditevent;
DROP TRIGGER append_only_rows ON audit_auditevent;
DROP FUNCTION audit_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [migrations.RunSQL(GUARD, DROP_GUARD)]
