"""One file on the disks of several workers, of which one is killed while the file is read."""

import json
import subprocess
import sys
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path

import euphrates as eu

EUPHRATES = Path(sys.executable).with_name("euphrates")


def start(ended: ExitStack, token: Path, *words: object, **options: object) -> subprocess.Popen:
    command = [EUPHRATES, *words, "--token-file", token]
    process = ended.enter_context(subprocess.Popen(command, text=True, **options))
    ended.callback(process.kill)
    return process


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # All workers are on this machine.
    with tempfile.TemporaryDirectory() as name, ExitStack() as ended:
        token, workers = Path(name) / "token", []
        subprocess.run([EUPHRATES, "token", token], check=True)
        listen = ["cluster", "--listen", "127.0.0.1:0"]
        keeper = start(ended, token, *listen, stdout=subprocess.PIPE)
        address = keeper.stdout.readline().split()[-1]
        for number, catalog in enumerate([["--serve-catalog"], [], [], []]):
            home = Path(name) / f"w{number}"
            home.mkdir()
            (home / "disks.json").write_text(json.dumps([{"name": f"d{number}", "folder": "disk"}]))
            join = ["worker", "--name", home.name, "--join", address]
            workers.append(start(ended, token, *join, "--serve", home, *catalog))
            keeper.stdout.readline()  # It has joined.
        files = eu.striped_home(f"at:{address}", token_file=token)
        with eu.open_striped("numbers", "wb", data=2, parity=1, home=files) as file:
            file.write(bytes(range(250)) * 40_000)
        with eu.open_striped("numbers", home=files) as file:
            workers[2].kill()
            assert file.read() == bytes(range(250)) * 40_000
            print(f"{file.size:,} bytes without the disk of w2")
