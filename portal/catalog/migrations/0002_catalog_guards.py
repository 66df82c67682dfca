"""One id is one artefact: what pins a model cannot change once it left the draft, and an artefact never changes."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION catalog_pin_model() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.state <> 'draft' THEN
            RAISE EXCEPTION 'a model that was offered stays in the catalogue' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    IF OLD.state <> 'draft' AND (
        NEW.state = 'draft'
        OR (NEW.public_id, NEW.source, NEW.revision, NEW.artefact_digest, NEW.dtype, NEW.quantization, NEW.end_tokens)
            IS DISTINCT FROM
            (OLD.public_id, OLD.source, OLD.revision, OLD.artefact_digest, OLD.dtype, OLD.quantization, OLD.end_tokens)
        OR (NEW.tokenizer_id, NEW.chat_template_id) IS DISTINCT FROM (OLD.tokenizer_id, OLD.chat_template_id)
        OR (NEW.task, NEW.embedding_dimensions) IS DISTINCT FROM (OLD.task, OLD.embedding_dimensions)
        OR (OLD.config IS NOT NULL AND NEW.config IS DISTINCT FROM OLD.config)
        OR (OLD.weight_bytes IS NOT NULL AND NEW.weight_bytes IS DISTINCT FROM OLD.weight_bytes)
    ) THEN
        RAISE EXCEPTION 'one model id is one artefact: make a new id' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER catalog_pin_model BEFORE UPDATE OR DELETE ON catalog_catalogmodel
    FOR EACH ROW EXECUTE FUNCTION catalog_pin_model();

CREATE FUNCTION catalog_pin_artefact() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an artefact is its digest and never changes' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER catalog_pin_artefact BEFORE UPDATE ON catalog_artefact
    FOR EACH ROW EXECUTE FUNCTION catalog_pin_artefact();
"""

BACKWARD = """
DROP TRIGGER catalog_pin_artefact ON catalog_artefact;
DROP FUNCTION catalog_pin_artefact();
DROP TRIGGER catalog_pin_model ON catalog_catalogmodel;
DROP FUNCTION catalog_pin_model();
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
