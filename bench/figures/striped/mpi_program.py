"""A program of MPI ranks that writes a file of BTIO's geometry; `mpi.py` starts it.

It knows nothing of striped files: `mpi_program.py PATH PLANES` writes to any path, collectively,
and its first rank prints the seconds from before `open` until all have closed the file.
"""

from __future__ import annotations

import sys

from mpi4py import MPI

PIECE, THIRD = 3_240, 81


def main(path: str, planes: int) -> None:
    ranks = MPI.COMM_WORLD
    writer = ranks.rank
    across, down = writer % 3, writer // 3
    sizes, part = [planes, 3 * THIRD, 3 * PIECE], [planes // 3, THIRD, PIECE]
    cells = []
    for at in range(3):
        starts = [at * part[0], (down + at) % 3 * THIRD, (across + at) % 3 * PIECE]
        cells.append(MPI.BYTE.Create_subarray(sizes, part, starts))
    view = MPI.Datatype.Create_struct([1, 1, 1], [0, 0, 0], cells).Commit()
    content = bytes([writer + 1]) * (3 * part[0] * part[1] * part[2])
    ranks.Barrier()
    began = MPI.Wtime()
    file = MPI.File.Open(ranks, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_view(0, MPI.BYTE, view)
    file.Write_all(content)
    file.Close()
    ranks.Barrier()
    if writer == 0:
        print(MPI.Wtime() - began)


main(sys.argv[1], int(sys.argv[2]))
