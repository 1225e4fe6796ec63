"""Every way of building a flow that the manual shows."""

import euphrates as eu
from euphrates import Flow, limit, var

COLUMNS = ["a", "b"]
OPTIONS = {"kind": "zstd", "rows": 10}
scratch = eu.Flow("not this one")
flow = Flow("styles")
source_path = flow.variable("path", default="in.csv", doc="what is read")
source = flow.place(eu.scan(source_path, columns=COLUMNS, format=None), count=2, workers="disk")
placed = flow.place(eu.tee(), id="import")
flow.attach(source, placed, bytes_max="1.5MiB", queue="distributed")
(
    placed[0]
    >> flow.place(eu.filter(where="a > 1"), per_worker=2, workers=["gpu", "zone=a"])
    >> eu.project(("a", "b as c"))
    >> flow.place(eu.save("out.parquet", compression=OPTIONS["kind"]))
)
other, joined = flow.place(eu.read(collection="in.1", order=True)), flow.place(
    eu.join(["a", {"left": "b", "right": "c"}], how="left", build=var("side", default="auto")),
)
flow.attach("read_1", "join_1", input="right", bytes_max=1e6)
placed[1] >> joined["left"]
last = flow.chain(joined, limit(OPTIONS["rows"]), eu.sort(by=[COLUMNS[-1]]))
last >> eu.module("of_tomorrow", {"from": var("path"), "list": [None, True, -0.0]})
flow.layout = {"positions": {"scan_1": [0, -20]}}
assert flow.name == "styles"
if __name__ == "__main__":
    report = flow.go(path="b.csv")
