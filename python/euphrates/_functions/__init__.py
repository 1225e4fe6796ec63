"""A function for every module, in a file of its own that is loaded on first use.

Derived from the modules by `make derive`; not to be edited.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .aggregate import aggregate as aggregate
    from .collect import collect as collect
    from .copy_in import copy_in as copy_in
    from .copy_out import copy_out as copy_out
    from .count import count as count
    from .divide import divide as divide
    from .exec import exec as exec
    from .external_sql import external_sql as external_sql
    from .filter import filter as filter
    from .from_arrow import from_arrow as from_arrow
    from .generate import generate as generate
    from .join import join as join
    from .limit import limit as limit
    from .map import map as map
    from .merge import merge as merge
    from .partition import partition as partition
    from .pre_aggregate import pre_aggregate as pre_aggregate
    from .project import project as project
    from .python import python as python
    from .read import read as read
    from .recurse import recurse as recurse
    from .sample import sample as sample
    from .save import save as save
    from .save_dataset import save_dataset as save_dataset
    from .scan import scan as scan
    from .sort import sort as sort
    from .spool import spool as spool
    from .tee import tee as tee
    from .union import union as union
    from .unnest import unnest as unnest
    from .window import window as window
    from .write import write as write

__all__ = [
    "aggregate",
    "collect",
    "copy_in",
    "copy_out",
    "count",
    "divide",
    "exec",
    "external_sql",
    "filter",
    "from_arrow",
    "generate",
    "join",
    "limit",
    "map",
    "merge",
    "partition",
    "pre_aggregate",
    "project",
    "python",
    "read",
    "recurse",
    "sample",
    "save",
    "save_dataset",
    "scan",
    "sort",
    "spool",
    "tee",
    "union",
    "unnest",
    "window",
    "write",
]
