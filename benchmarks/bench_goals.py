"""Measures the goals: one table, and build/bench.json. `docs/benchmarks.md` explains each row.

python benchmarks/bench_goals.py            everything
python benchmarks/bench_goals.py wire log   some groups
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import rows_context
import rows_model
import rows_server
import rows_storage
import rows_wire
from report import BUILD, Row, floors, machine, table, write_json

GROUPS: dict[str, Callable[[], Iterable[Row]]] = {
    "context": rows_context.rows,
    "wire": rows_wire.rows,
    "server": rows_server.rows,
    "model": rows_model.rows,
    "log": rows_storage.rows,
}


def main(chosen: list[str]) -> int:
    """Measure the groups and tell; the exit code says whether they could be measured, not whether goals are met."""
    unknown = set(chosen) - GROUPS.keys()
    if unknown:
        print(f"No such group: {', '.join(sorted(unknown))}. There are {', '.join(GROUPS)}.", file=sys.stderr)
        return 2
    about = machine()
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    found: list[Row] = []
    for name in chosen or GROUPS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        found += GROUPS[name]()
    print(table(found))
    print("\nfloors (sha256)")
    print("\n".join(f"{digest}  {name}" for name, digest in floors().items()))
    write_json(found, about, BUILD / "bench.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
