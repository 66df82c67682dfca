"""Credit notes are added to, never edited: the database itself refuses it."""

from django.db import migrations

GUARD = """
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON payouts_creditnote
    FOR EACH ROW EXECUTE FUNCTION billing_refuse_change();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON payouts_creditnote
    FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();
"""

DROP_GUARD = """
DROP TRIGGER append_only_table ON payouts_creditnote;
DROP TRIGGER append_only_rows ON payouts_creditnote;
"""


class Migration(migrations.Migration):
    dependencies = [("payouts", "0001_initial"), ("billing", "0002_append_only")]

    operations = [migrations.RunSQL(GUARD, DROP_GUARD)]
