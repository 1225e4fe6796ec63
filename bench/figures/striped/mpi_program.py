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
    starts = [
        ((plane * 3 + (down + at) % 3) * THIRD + row) * 3 * PIECE + (across + at) % 3 * PIECE
        for at in range(3)
        for plane in range(at * planes // 3, (at + 1) * planes // 3)
        for row in range(THIRD)
    ]
    view = MPI.BYTE.Create_hindexed_block(PIECE, starts).Commit()
    content = bytes([writer + 1]) * (len(starts) * PIECE)
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
