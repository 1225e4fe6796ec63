"""Feeds a flow through an unmodified program, here `tr`, by its standard input and output."""

import euphrates as eu

words = eu.from_arrow({"line": ["the fast case", "made common"]})

flow = eu.Flow("shout")
flow.chain(
    words,
    eu.exec(["tr", "a-z", "A-Z"], input="lines", output="lines"),
    eu.sort(["line"]),
    eu.collect(),
)

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    for row in flow.go().collected().to_pylist():
        print(row["line"].decode())  # lines are bytes: a program may write any encoding
