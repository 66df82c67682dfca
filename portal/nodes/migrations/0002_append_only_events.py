"""A node's events and costs are history: rows are added, never changed or deleted."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION nodes_keep_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node events are append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER nodes_keep_events BEFORE UPDATE OR DELETE ON nodes_nodeevent
    FOR EACH ROW EXECUTE FUNCTION nodes_keep_events();

CREATE FUNCTION nodes_keep_costs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'house costs are append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER nodes_keep_costs BEFORE UPDATE OR DELETE ON nodes_housecost
    FOR EACH ROW EXECUTE FUNCTION nodes_keep_costs();
"""

BACKWARD = """
DROP TRIGGER nodes_keep_events ON nodes_nodeevent;
DROP FUNCTION nodes_keep_events();
DROP TRIGGER nodes_keep_costs ON nodes_housecost;
DROP FUNCTION nodes_keep_costs();
"""


class Migration(migrations.Migration):
    dependencies = [("nodes", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
