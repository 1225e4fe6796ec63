"""Operators and items that objects of other libraries have, and what to write for them here."""

from __future__ import annotations

ITEMS = {
    "cluster": "[worker.name for worker in cluster.workers]",
    "expression": 'eu.call("list_extract", eu.col("a"), 1), or "a.field" of a struct',
    "flow": "the handle that .place(module) returns; its ports are handle[name]",
    "group": '.agg(total="sum(a)")',
    "query": '.select("a"), .filter("a > 1") or .limit(5)',
    "report": '.collected("collect_1") for rows, or .modules for counts',
    "table": '.to_pydict()["a"] for a column, or .to_pylist()[0] for a row',
}
"""What to write for `object[key]`, by the kind of object."""
_ARROWS = (">>", "|", "<<")
_COMPARED = (">", ">=", "<", "<=")
_MODULES = "flow.chain(a, b): >> attaches modules that flow.place(…) has placed"
_OF_QUERIES = {
    **dict.fromkeys(_ARROWS, ".then(module), or a method such as .filter(…)"),
    **dict.fromkeys(_COMPARED, '.filter("a > 1")'),
    "+": ".union(other)",
    "&": '.join(other, "id", how="semi")',
    "-": '.join(other, "id", how="anti")',
    "*": '.sql("select * from self cross join t", t=other)',
}
INSTEAD = {
    "flow": dict.fromkeys((*_ARROWS, "+"), "flow.chain(a, b)"),
    "module": dict.fromkeys((*_ARROWS, "+"), _MODULES),
    "placed": dict.fromkeys((*_ARROWS, "+"), "a >> b"),
    "query": _OF_QUERIES,
    "expression": {
        "^": 'eu.call("power", a, 2), or a != b',
        "<<": 'SQL in a text: "a << 1"',
        ">>": 'SQL in a text: "a >> 1"',
    },
}
"""What to write for an operator, by the kind of object."""
OPERATORS = {
    "__rshift__": ">>",
    "__rrshift__": ">>",
    "__lshift__": "<<",
    "__or__": "|",
    "__and__": "&",
    "__xor__": "^",
    "__add__": "+",
    "__sub__": "-",
    "__mul__": "*",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
}
"""The operators that are answered."""
