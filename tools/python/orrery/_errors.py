"""Mistakes of the user, as the simulator reports them: one line with its place."""

import re

_LINE = re.compile(r"^(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): (?:(?P<key>[\w.\[\]*-]+): )?")
_PLACE = re.compile(r"^(?P<file>[^:\s]+): (?:(?P<key>[\w.\[\]*-]+): )?")


class InputError(ValueError):
    """The input is wrong. `str()` is the simulator's line, `FILE:LINE:COLUMN: key: got X, expected Y`; `file`, `line`,
    `column` and `key` are its parts, None where it has none."""

    def __init__(self, message):
        super().__init__(message)
        found = _LINE.match(message) or _PLACE.match(message)
        parts = found.groupdict() if found else {}
        self.file = parts.get("file")
        self.line = int(parts["line"]) if parts.get("line") else None
        self.column = int(parts["column"]) if parts.get("column") else None
        self.key = parts.get("key")
