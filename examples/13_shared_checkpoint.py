"""Eight processes write one checkpoint, each its columns of a matrix; one of the disks is slow."""

import json
import multiprocessing
import tempfile
import time
from pathlib import Path

import euphrates as eu

PROCESSES, ROWS, COLUMNS = 8, 1_000, 4_096  # bytes of one process in each row


def write_columns(session: eu.StripedSession, number: int) -> None:
    """Writes the columns of one process: a view, since they lie in every row."""
    with session.writer(number) as file:
        columns = file.view(number * COLUMNS, COLUMNS, PROCESSES * COLUMNS, ROWS)
        columns.pwrite(bytes([number]) * columns.size)


def checkpoint(home: Path, *rates: int) -> float:
    """The seconds it takes with folders as disks, limited to these bytes a second."""
    disks = [{"name": f"d{n}", "folder": f"disk{n}", "rate": rate} for n, rate in enumerate(rates)]
    (home / "disks.json").write_text(json.dumps(disks))
    began = time.perf_counter()
    with eu.striped_session("checkpoint", PROCESSES, home=home) as session:
        fork = multiprocessing.get_context("fork")
        writers = [fork.Process(target=write_columns, args=(session, n)) for n in range(PROCESSES)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    return time.perf_counter() - began  # A process that failed is named by an error.


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        print(f"equal disks: {checkpoint(home, *[50_000_000] * 6):.1f} s")
        slow = checkpoint(home, 12_500_000, *[50_000_000] * 5)
        print(f"one disk of a quarter of the speed: {slow:.1f} s")
        row = b"".join(bytes([number]) * COLUMNS for number in range(PROCESSES))
        assert eu.open_striped("checkpoint", home=home).read() == row * ROWS
