"""Eight processes write one checkpoint, each its columns of a matrix; one of the disks is slow."""

import json
import multiprocessing
import tempfile
import time
from pathlib import Path

import euphrates as eu

PROCESSES, ROWS, COLUMNS = 8, 1_000, 4_096  # bytes of one process in each row


def disks(home: Path, *rates: int) -> None:
    """Folders as disks, limited to these bytes a second."""
    names = enumerate(rates)
    entries = [{"name": f"d{n}", "folder": f"disk{n}", "rate": rate} for n, rate in names]
    (home / "disks.json").write_text(json.dumps(entries))


def write_columns(session: eu.StripedSession, number: int) -> None:
    """Writes the columns of one process: a view, since they lie in every row."""
    with session.writer(number) as file:
        columns = file.view(number * COLUMNS, COLUMNS, PROCESSES * COLUMNS, ROWS)
        columns.pwrite(bytes([number]) * columns.size)


def checkpoint(home: Path) -> float:
    began = time.perf_counter()
    with eu.striped_session("checkpoint", PROCESSES, home=home) as session:
        fork = multiprocessing.get_context("fork")
        arguments = [(session, number) for number in range(PROCESSES)]
        processes = [fork.Process(target=write_columns, args=one) for one in arguments]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    return time.perf_counter() - began  # A process that failed is named by an error.


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        disks(home, *[50_000_000] * 6)
        print(f"equal disks: {checkpoint(home):.1f} s")
        disks(home, 12_500_000, *[50_000_000] * 5)
        print(f"one disk of a quarter of the speed: {checkpoint(home):.1f} s")
        with eu.open_striped("checkpoint", home=home) as file:
            row = b"".join(bytes([number]) * COLUMNS for number in range(PROCESSES))
            assert file.read() == row * ROWS
