"""Generated code and drawings of flows: text of a document never becomes syntax."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import euphrates as eu
from euphrates._tools.functions import options_of

HOSTILE = [
    '"); import os #',
    "'); import os #",
    "\"\"\"\n'''",
    "a\nimport os",
    "\u202e\u2066\u200f\u2028\x85\x00\x7f",
    "\\",
    "\\\\x",
    "{x}",
    "${y}",
    "print",
    "eu",
    "flow",
    "import",
    "None",
    "module_1",
    "scan_1",
    "é\U0001f600\U000e0041",
    "#",
    "",
    "__name__",
    "</script><script>alert(1)</script>",
    'r#"x"#',
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8))
numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
modules = st.one_of(st.sampled_from([*eu.modules.SPECS]), texts)
ports = st.one_of(st.integers(0, 2**63 - 1), texts)


@st.composite
def configs(draw: st.DrawFn, module: str) -> dict[str, Any]:
    options = [*options_of(eu.modules.SPECS.get(module, {"config": {}}))]
    # Documents whose storage options may be secrets are refused.
    options = [name for name in options if name != "storage_options"]
    known = (
        st.dictionaries(st.sampled_from(options), values, max_size=4) if options else st.just({})
    )
    unknown = st.dictionaries(texts, values, max_size=2)
    config = {**draw(known), **draw(st.one_of(st.just({}), unknown))}
    if draw(st.booleans()):
        config["variable"] = {"$var": draw(texts)}
    return config


def optional(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(st.one_of(texts, st.sampled_from(["scan_1", "scan_2"])), unique=True))
    nodes = []
    for id in ids:
        module = draw(modules)
        count = draw(st.one_of(st.none(), st.integers(0, 2**63)))
        node = {"id": id, "module": module, "config": draw(configs(module))}
        nodes.append({**node, **optional(count=count)})
    ends = st.one_of(st.sampled_from(ids), texts) if ids else texts
    kinds = st.sampled_from([None, "distributed", "pairwise", "broadcast"])
    maybe = st.one_of(st.none(), ports)
    queues = [
        {
            "from": draw(ends),
            "to": draw(ends),
            **optional(
                output=draw(maybe),
                input=draw(maybe),
                queue=draw(kinds),
                bytes_max=draw(st.one_of(st.none(), st.integers(1, 2**63 - 1))),
            ),
        }
        for _ in range(draw(st.integers(0, 4)))
    ]
    document = {"euphrates": 1, "name": draw(texts), "modules": nodes, "queues": queues}
    variables = draw(st.dictionaries(texts, st.tuples(values, st.one_of(st.none(), texts))))
    if variables:
        document["variables"] = {
            name: optional(default=default, doc=doc) for name, (default, doc) in variables.items()
        }
    layout = draw(values)
    return {**document, **optional(layout=layout)}


def normal(document: dict[str, Any]) -> Any:
    return json.loads(eu.Flow.from_json(json.dumps(document)).to_json())


@settings(max_examples=150, deadline=None)
@given(documents())
def test_generated_code_rebuilds_the_document(document: dict[str, Any]) -> None:
    wanted = normal(document)
    code = eu.Flow.from_json(json.dumps(document)).code()
    invisible = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    assert not [c for c in code if c != "\n" and unicodedata.category(c) in invisible]
    scope: dict[str, Any] = {"__name__": "generated"}
    exec(compile(code, "generated", "exec"), scope)
    assert json.loads(scope["flow"].to_json()) == wanted
    names = set(scope) - {"__name__", "__builtins__", "eu", "flow"}
    assert names <= {node["id"] for node in wanted["modules"]} | {
        f"module_{number}" for number in range(1, 99)
    }


@settings(max_examples=100, deadline=None)
@given(documents())
def test_any_document_can_be_drawn(document: dict[str, Any]) -> None:
    flow = eu.Flow.from_json(json.dumps(document))
    drawn = ET.fromstring(flow.draw("svg"))
    tags = {element.tag.rpartition("}")[2] for element in drawn.iter()}
    assert tags <= {"svg", "title", "style", "rect", "text", "tspan", "g", "circle", "path"}
    assert len([e for e in drawn.iter() if e.get("class") == "card"]) == len(document["modules"])
    assert flow.draw("dot").startswith("digraph")
    assert all(line.count('"') in (0, 2) for line in flow.draw("mermaid").splitlines())


@pytest.mark.parametrize("kind", [None, True, 3, 0.5, [], {"a": 1}])
def test_values_that_are_no_types_are_refused_by_the_check_only(kind: Any) -> None:
    config = {"path": "n.csv", "types": {"n": kind}}
    node = {"id": "scan_1", "module": "scan", "config": config}
    document = {"euphrates": 1, "name": "", "modules": [node], "queues": []}
    scope: dict[str, Any] = {}
    exec(eu.Flow.from_json(json.dumps(document)).code(), scope)
    assert json.loads(scope["flow"].to_json()) == normal(document)
    with pytest.raises(eu.UsageError, match="types"):
        scope["flow"].check()


def test_single_name_is_a_list_in_calls_only() -> None:
    assert eu.sort("price").config == eu.sort(["price"]).config == {"by": ["price"]}
    node = {"id": "sort_1", "module": "sort", "config": {"by": "price"}}
    document = {"euphrates": 1, "name": "x", "modules": [node], "queues": []}
    flow = eu.Flow.from_json(json.dumps(document))
    assert 'eu.module("sort", {"by": "price"})' in flow.code()


def test_generated_code_is_idiomatic() -> None:
    flow = eu.Flow("sort")
    path = flow.variable("path", default="in.parquet", doc="what to sort")
    source = flow.place(eu.scan(path, columns=["a", "b"]), count=2)
    ordered = flow.place(eu.sort(["b desc"]), id="by_b")
    flow.attach(source, ordered, bytes_max=1 << 20)
    flow.attach(ordered, flow.place(eu.collect()))
    assert (
        flow.code()
        == """\
import euphrates as eu

flow = eu.Flow("sort")
flow.variable("path", default="in.parquet", doc="what to sort")

scan_1 = flow.place(eu.scan(eu.var("path"), columns=["a", "b"]), count=2)
by_b = flow.place(eu.sort(["b desc"]), id="by_b")
collect_1 = flow.place(eu.collect())

flow.attach(scan_1, by_b, bytes_max=1048576)
flow.attach(by_b, collect_1)

if __name__ == "__main__":
    print(flow.go())
"""
    )


def test_generated_code_runs_as_a_program(tmp_path: Path) -> None:
    flow = eu.Flow("numbers")
    flow.chain(eu.generate("integers", rows=12_345), eu.count(), eu.collect())
    program = tmp_path / "program.py"
    program.write_text(flow.code())
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert "12,345" in done.stdout


def test_unknown_languages_and_formats_are_named() -> None:
    flow = eu.Flow("x")
    with pytest.raises(eu.UsageError, match="did you mean `python`"):
        flow.code("pyhton")  # type: ignore[arg-type]
    with pytest.raises(eu.UsageError, match="format"):
        flow.draw("png")  # type: ignore[arg-type]
    assert flow._repr_html_() == flow._repr_svg_() == flow.draw()
