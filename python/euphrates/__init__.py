"""Euphrates: dataflow at the speed the machines have.

>>> import euphrates as eu
>>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Eridu"], "price": [3, 5, 4]})
>>> flow = eu.Flow("sort")
>>> flow.chain(orders, eu.sort(["price desc"]), eu.save("sorted.parquet"))
<save_1 in 'sort'>
>>> print(flow.go())
flow `sort` finished in ...
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from ._api import *  # noqa: F403
    from ._api import __all__ as __all__
else:
    # The package loads all of its parts when a program uses any of them. The command line and
    # workers use none, and loading them would take most of their start-up time.

    def _load():
        import euphrates._api as api

        # `__all__` is missing while `_api` itself is being loaded.
        names = getattr(api, "__all__", None)
        if names is not None:
            globals().update({name: getattr(api, name) for name in names}, __all__=names)

    def __getattr__(name):
        if not name.startswith("_") or name in ("__all__", "__version__"):
            _load()
            if name in globals():
                return globals()[name]
        more = ""
        if not name.startswith("_"):
            from ._options import suggestion

            near = suggestion(name, globals().get("__all__", ()))
            more = f"; {near}" if near else ""
        text = f"module {__name__!r} has no attribute {name!r}{more}"
        # `name=None` keeps Python's traceback from adding a suggestion of its own.
        raise AttributeError(text, name=None)

    def __dir__():
        _load()
        return sorted(globals())
