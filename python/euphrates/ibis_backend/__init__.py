"""The Ibis backend: expressions of Ibis run as flows.

>>> import ibis
>>> con = ibis.euphrates.connect({"orders": {"city": ["Ur", "Kish", "Ur"], "price": [2, 3, 5]}})
>>> orders = con.table("orders")
>>> orders.group_by("city").agg(total=orders.price.sum()).order_by("city").to_pyarrow().to_pydict()
{'city': ['Kish', 'Ur'], 'total': [3, 7]}
"""

from .backend import Backend

__all__ = ["Backend"]
