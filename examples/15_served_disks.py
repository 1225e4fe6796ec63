"""One file on the disks of several workers, of which one is killed while the file is read."""

import contextlib
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import euphrates as eu

EUPHRATES = Path(sys.executable).with_name("euphrates")


@contextlib.contextmanager
def serving(folder: Path, workers: int) -> Iterator[tuple[str, dict[str, subprocess.Popen]]]:
    """A cluster whose workers serve a disk each; the first one serves the catalog, too."""
    token = ["--token-file", folder / "token"]
    subprocess.run([EUPHRATES, "token", folder / "token"], check=True)
    listen = [EUPHRATES, "cluster", "--listen", "127.0.0.1:0", *token]
    with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as keeper:
        address = keeper.stdout.readline().split()[-1]
        started = {}
        for number in range(workers):
            home = folder / f"machine{number}"
            home.mkdir()
            (home / "disks.json").write_text(json.dumps([{"name": f"d{number}", "folder": "disk"}]))
            join = [EUPHRATES, "worker", "--name", f"w{number}", "--join", address, *token]
            catalog = ["--serve-catalog"] if number == 0 else []
            started[f"w{number}"] = subprocess.Popen([*join, "--serve", home, *catalog])
            keeper.stdout.readline()
        try:
            yield f"at:{address}", started
        finally:
            for process in [*started.values(), keeper]:
                process.kill()
            for process in started.values():
                process.wait()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # All workers are on this machine.
    with tempfile.TemporaryDirectory() as name, serving(Path(name), 4) as (cluster, workers):
        home = eu.striped_home(cluster, token_file=Path(name) / "token")
        with eu.open_striped("numbers", "wb", data=2, parity=1, home=home) as file:
            file.write(bytes(range(250)) * 40_000)
        with eu.open_striped("numbers", home=home) as file:
            first = file.read(250)
            workers["w2"].kill()
            assert first * 40_000 == first + file.read()
            print(f"{file.size:,} bytes without the disk of w2")
