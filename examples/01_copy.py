"""Copies a collection, the River paper's first program: place, attach, go."""

import euphrates as eu

make = eu.Flow("make")
make.chain(eu.generate("integers", rows=1000), eu.write("in.1", overwrite=True))
make.go()

flow = eu.Flow("copy")
source = flow.place(eu.read("in.1"))
target = flow.place(eu.write("out.1", overwrite=True))
flow.attach(source, target)  # a distributed queue, because write needs no order

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    print(flow.go())
