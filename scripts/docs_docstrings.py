"""Show the docstrings of the package as they are meant: their examples are Python sessions, not quotations of Markdown."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

SESSION = re.compile(r"^>>> .*?(?=^\s*$\n(?!\s*>>> )|\Z)", re.MULTILINE | re.DOTALL)


def fenced(docstring: str) -> str:
    r"""Put fences around the examples of a docstring.

    >>> print(fenced("Add.\n\n>>> 1 + 1\n2\n\nAnd so on.").replace("`", "'"))
    Add.
    <BLANKLINE>
    '''pycon
    >>> 1 + 1
    2
    '''
    <BLANKLINE>
    And so on.
    """
    return SESSION.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", docstring)


class Examples(Extension):
    """Fences the examples of everything that is documented."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Change the docstring of an object that was read."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = fenced(obj.docstring.value)
