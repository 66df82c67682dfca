"""The snapshot's keys: kept by bucket, beside the projects and organizations they share; read where these changed."""

from collections.abc import Callable, Iterable
from typing import Protocol

from portal.accounts.selectors import for_gateway as rows
from portal.accounts.selectors.for_gateway import KeyRow, OwnerRow
from portal.gateway.contracts import KeyEntry
from portal.gateway.key_entries import KeyEntries


class _ReadBucket(Protocol):
    def __call__(self, *, bucket: int) -> Iterable[OwnerRow]: ...


class _Owners:
    """Organizations or projects as they were read last. `moved` are those that changed since the keys were adapted."""

    def __init__(self, read_digests: Callable[[], dict[int, str]], read_bucket: _ReadBucket) -> None:
        self.rows: dict[int, OwnerRow] = {}
        self.moved: set[int] = set()
        self._read_digests = read_digests
        self._read_bucket = read_bucket
        self._digests: dict[int, str] = {}

    def refresh(self) -> None:
        """Read the buckets that changed. Raises django.db.Error; what was read before it stays noted."""
        for bucket, digest in self._read_digests().items():
            if self._digests.get(bucket) == digest:
                continue
            for row in self._read_bucket(bucket=bucket):
                known = self.rows.get(row.id)
                if known is not None and known != row:
                    self.moved.add(row.id)
                self.rows[row.id] = row
            self._digests[bucket] = digest


class KeySection:
    """All keys of the pool. A change of one key reads its bucket, one of a project or organization its keys alone."""

    def __init__(self) -> None:
        self._entries = KeyEntries()
        self._organizations = _Owners(rows.organization_digests, rows.organizations_in_bucket)
        self._projects = _Owners(rows.project_digests, rows.projects_in_bucket)
        self._digests: dict[int, str] = {}
        self._buckets: dict[int, dict[bytes, KeyEntry]] = {}

    def load(self) -> dict[bytes, KeyEntry] | None:
        """Return all keys by digest where anything changed, else None. Raises django.db.Error."""
        # Keys' digests first: whatever is written while the owners are read shows in the next digests.
        digests = rows.key_digests()
        self._organizations.refresh()
        self._projects.refresh()
        changed = [bucket for bucket, digest in digests.items() if self._digests.get(bucket) != digest]
        is_same = not changed and digests.keys() == self._digests.keys()
        if is_same and not self._organizations.moved and not self._projects.moved:
            return None
        self._buckets = {bucket: entries for bucket, entries in self._buckets.items() if bucket in digests}
        unread = {bucket for bucket in changed if not self._read(bucket)}
        self._adapt()
        self._digests = {bucket: digest for bucket, digest in digests.items() if bucket not in unread}
        return self._merged()

    def _read(self, bucket: int) -> bool:
        """Read a bucket's keys; tell whether each had its owners: who was made meanwhile is read the next time."""
        found: dict[bytes, KeyEntry] = {}
        is_whole = True
        for row in rows.keys_in_bucket(bucket=bucket):
            entries = self._of(row)
            is_whole = is_whole and bool(entries)
            found.update(entries)
        self._buckets[bucket] = found
        return is_whole

    def _adapt(self) -> None:
        """Make the entries anew whose project or organization changed."""
        organizations, projects = self._organizations.moved, self._projects.moved
        if not organizations and not projects:
            return
        for row in rows.keys_of(organization_ids=organizations, project_ids=projects):
            bucket = self._buckets.get(rows.bucket_of(row.id))
            if bucket is not None:
                bucket.update(self._of(row))
        organizations.clear()
        projects.clear()

    def _of(self, row: KeyRow) -> dict[bytes, KeyEntry]:
        organization = self._organizations.rows.get(row.organization_id)
        project = self._projects.rows.get(row.project_id) if row.project_id else None
        if organization is None or (row.project_id and project is None):
            return {}
        return self._entries.of(row, organization, project)

    def _merged(self) -> dict[bytes, KeyEntry]:
        merged: dict[bytes, KeyEntry] = {}
        for entries in self._buckets.values():
            merged.update(entries)
        return merged
