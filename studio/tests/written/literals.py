"""Literals, and what can be computed of them."""

import euphrates as eu

flow = eu.Flow("literals " 'of ' """Python""")
MEBIBYTE = 1 << 20
flow.place(
    eu.module(
        "texts",
        {
            "escapes": "\a\b\f\n\r\t\v\\\'\"\0\x41\101\u00e9\U0001f600\
joined",
            "raw": r"\n\"",
            "prefix": u"u",
            "lines": """a
b""",
            "quotes": '"' + "'" + '"""',
            "é→": "é→",
        },
    )
)
flow.place(
    eu.module(
        "numbers",
        {
            "whole": [0, 1_000_000, 0xFF, 0o17, 0b1010, -7, +7, ~7, 18446744073709551615],
            "floats": [1.0, 1e3, 1E-7, .5, 5., 1_0.5_0, -0.0, 1e16, 1e22, 123456789.125],
            "sums": [2 + 3 * 4, (2 + 3) * 4, 2**10, -(2**3), -2**2, 7 // 2, -7 // 2, -7 % 3],
            "bytes": [8 * MEBIBYTE, 2 * 1024**3, 1 << 30 >> 10, 1 + 1 << 2],
            "fractions": [1 / 4, 0.5 + 1, 3 * 0.5, 2**-1, 2.0**3],
        },
    )
)
flow.place(eu.generate("integers", rows=200 * 65_536, first=10 - 3))
flow.place(eu.module("nothing"))
flow.place(eu.module("empty", {"list": [], "dict": {}, "tuple": (), "one": (1,), "none": None}))
