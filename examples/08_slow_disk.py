"""One of four disks is five times slower. Reading each segment from its first copy waits for it;
graduated declustering reads from it at its rate, and the rest from its mirrors.
"""

import json
import os
import tempfile
from pathlib import Path

import euphrates as eu

temporary = tempfile.TemporaryDirectory()  # removed when the program ends
home = Path(temporary.name)
os.environ["EUPHRATES_HOME"] = str(home)


def disks(*rates: int) -> None:
    """Four folders as the disks of four workers, limited to these bytes a second."""
    entries = [
        {"name": f"d{n}", "folder": f"disk{n}", "worker": f"w{n}", "rate": rate}
        for n, rate in enumerate(rates)
    ]
    (home / "disks.json").write_text(json.dumps(entries))


disks(100_000_000, 100_000_000, 100_000_000, 100_000_000)
flow = eu.Flow("write")
numbers = flow.place(eu.generate("integers", rows=6_000_000))
flow.attach(numbers, flow.place(eu.write("numbers", disks=["d0", "d1", "d2", "d3"], copies=2)))

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    flow.go()
    disks(20_000_000, 20_000_000, 4_000_000, 20_000_000)
    seconds = {}
    for mirrors in ("primary", "graduated"):
        reading = eu.Flow("read")
        reading.chain(eu.read("numbers", mirrors=mirrors), eu.count(), eu.collect())
        seconds[mirrors] = reading.go().seconds
    print("from the first copies: {primary:.1f} s; graduated: {graduated:.1f} s".format(**seconds))
    print(f"the speeds of all four, added up: {48 / (3 * 20 + 4):.1f} s")
