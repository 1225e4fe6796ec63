"""Divides what is written on a terminal into SQL statements."""

from __future__ import annotations


def divided(text: str) -> tuple[list[str], str]:
    """The statements that a `;` ends, without it, and the text behind the last one. A `;` in a
    text, a name or a comment ends none.

    >>> from euphrates._shell.statements import divided
    >>> divided("select ';'; select 2; select")
    (["select ';'", 'select 2'], 'select')
    """
    found: list[str] = []
    closing: str | None = None
    begin = at = 0
    while at < len(text):
        two = text[at : at + 2]
        if closing is not None:
            if text.startswith(closing, at):
                at += len(closing)
                closing = None
            else:
                at += 1
        elif two in ("--", "/*"):
            closing = "\n" if two == "--" else "*/"
            at += 2
        elif text[at] == ";":
            found.append(text[begin:at].strip())
            begin = at = at + 1
        else:
            closing = text[at] if text[at] in "'\"" else None
            at += 1
    return [statement for statement in found if statement], _without_comments(text[begin:])


def _without_comments(rest: str) -> str:
    """Text that has nothing but comments is empty."""
    lines = [line.strip() for line in rest.splitlines()]
    is_empty = all(line == "" or line.startswith("--") for line in lines)
    return "" if is_empty else rest.strip()
