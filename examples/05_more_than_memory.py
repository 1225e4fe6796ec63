"""Sorts 200 MB of records with 64 MB of memory, and checks that they are in order."""

import subprocess
import sys
import tempfile
from pathlib import Path

import euphrates as eu

temporary = tempfile.TemporaryDirectory()  # removed when the program ends
records = Path(temporary.name) / "records.dat"
sorted_records = Path(temporary.name) / "sorted.dat"
euphrates = Path(sys.executable).with_name("euphrates")

subprocess.run([euphrates, "gensort", "2000000", records], check=True)

flow = eu.Flow("sort")
flow.chain(eu.scan(records, format="records"), eu.sort(["key"]), eu.save(sorted_records))

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    print(flow.go(memory="64MB"))
    subprocess.run([euphrates, "valsort", sorted_records], check=True)
