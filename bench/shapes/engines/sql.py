"""Jobs as SQL."""

from __future__ import annotations

from bench.shapes.engines import Job


def query(job: Job, *sources: str, half: str = "") -> str:
    """The query of a job over these relations; `half` is a word before `SEMI JOIN`."""
    if job["task"] == "join":
        return joined(job, sources[0], sources[1], half)
    if job["task"] == "group":
        chosen = [*job["keys"], *(f"{called(*what)} AS {name}" for name, *what in job["values"])]
        return f"SELECT {', '.join(chosen)} FROM {sources[0]} GROUP BY {', '.join(job['keys'])}"
    if job["task"] == "scan":
        where = f" WHERE {job['where']}" if job["where"] else ""
        return f"SELECT {', '.join(job['columns']) or '*'} FROM {sources[0]}{where}"
    limit = f" LIMIT {job['limit']}" if job["limit"] else ""
    return f"SELECT * FROM {sources[0]} ORDER BY {order(job)}{limit}"


def order(job: Job) -> str:
    return ", ".join(f"{name} {'DESC' if down else 'ASC'} NULLS LAST" for name, down in job["by"])


def called(function: str, column: str) -> str:
    if function == "count distinct":
        return f"count(DISTINCT {column})"
    return f"{function}({column or '*'})"


def joined(job: Job, left: str, right: str, half: str) -> str:
    how, keys = job["how"], job["on"]
    met = " AND ".join(f"l.{name} = r.{name}" for name in keys)
    lefts, rights = (
        [name for name, _ in input_["columns"] if name not in keys] for input_ in job["inputs"]
    )
    if how in ("semi", "anti"):
        chosen, join = ["l.*"], f"{half} {how} JOIN"
    else:
        key = {"right": "r.{0}", "full": "coalesce(l.{0}, r.{0}) AS {0}"}.get(how, "l.{0}")
        chosen, join = [key.format(name) for name in keys], f"{how} JOIN"
        chosen += [f"l.{name}" for name in lefts] + [f"r.{name}" for name in rights]
    return f"SELECT {', '.join(chosen)} FROM {left} l {join.upper()} {right} r ON {met}"
