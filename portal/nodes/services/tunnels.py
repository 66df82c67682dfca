"""Which gateway process holds a node's tunnel: compare-and-set by generation, in one statement."""

from datetime import datetime

from django.db import connection, transaction

from portal.integrations import bus
from portal.nodes.models import Tunnel

_CLAIM = """
INSERT INTO nodes_tunnel (node_id, generation, process, peer, connected_at, seen_at)
SELECT node.id, %(generation)s, %(process)s, %(peer)s, %(now)s, %(now)s
  FROM nodes_node AS node
 WHERE node.id = %(node_id)s AND node.generation = %(generation)s AND node.state NOT IN ('suspended', 'retired')
ON CONFLICT (node_id) DO UPDATE
   SET generation = EXCLUDED.generation, process = EXCLUDED.process, peer = EXCLUDED.peer,
       connected_at = EXCLUDED.connected_at, seen_at = EXCLUDED.seen_at
 WHERE nodes_tunnel.generation <= EXCLUDED.generation
RETURNING node_id
"""


def claim(*, node_id: int, generation: int, process: str, peer: str, now: datetime) -> bool:
    """Make this process the owner; False where the session is not the newest or the node may not have a tunnel."""
    facts: dict[str, int | str | datetime] = {
        "node_id": node_id,
        "generation": generation,
        "process": process,
        "peer": peer,
        "now": now,
    }
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_CLAIM, facts)
            is_ours = cursor.fetchone() is not None
        if is_ours:
            bus.announce("tunnels", str(node_id))
    return is_ours


def release(*, node_id: int, generation: int, process: str, now: datetime) -> bool:
    """Give the tunnel up where this process still owns it; tell whether it did."""
    with transaction.atomic():
        owned = Tunnel.objects.filter(node_id=node_id, generation=generation, process=process)
        was_ours = owned.delete()[0] > 0
        if was_ours:
            bus.announce("tunnels", str(node_id))
    return was_ours


def touch(*, node_id: int, generation: int, process: str, now: datetime) -> bool:
    """Note that the tunnel lives; False where another process owns it now."""
    owned = Tunnel.objects.filter(node_id=node_id, generation=generation, process=process)
    return owned.update(seen_at=now) > 0


def release_all(*, process: str) -> int:
    """Give up every tunnel of a process that has just started: whatever it held before, it holds no more."""
    with transaction.atomic():
        rows = list(Tunnel.objects.select_for_update().filter(process=process).values_list("node_id", flat=True))
        Tunnel.objects.filter(node_id__in=rows).delete()
        for node_id in rows:
            bus.announce("tunnels", str(node_id))
    return len(rows)
