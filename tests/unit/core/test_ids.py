"""Ids are unique and ordered by time, also beside a forked child that shares everything else."""

import subprocess
import sys

from portal.core import ids

_FORK = """
import os
from portal.core import ids
ids.uuid7()
read, write = os.pipe()
child = os.fork()
drawn = {ids.random_bytes().hex() for _ in range(100)}
if child == 0:
    os.write(write, "".join(drawn).encode())
    os._exit(0)
os.waitpid(child, 0)
theirs = os.read(read, 65536).decode()
print(len(drawn & {theirs[at : at + 32] for at in range(0, len(theirs), 32)}), len(drawn), len(theirs) // 32)
"""


def test_a_uuid7_has_its_version_its_variant_and_the_time_first():
    first, second = ids.uuid7(), ids.uuid7()

    assert {first.version, second.version} == {7}
    assert {first.variant, second.variant} == {"specified in RFC 4122"}
    assert second.int >> 80 >= first.int >> 80


def test_random_bytes_never_come_twice():
    drawn = [ids.random_bytes() for _ in range(2_000)]

    assert len(set(drawn)) == 2_000
    assert {len(value) for value in drawn} == {16}


def test_a_forked_child_draws_others():
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["0", "100", "100"]
