"""A request's text, before any parser has seen it."""

import re

from kiln_triton_worker.failure import Failure

# The source is parsed under this relative name, its kind behind it, because the parser takes the name as the location of a module
# that has none: with it, equal text gives equal binaries in every directory.
SOURCE_STEM = "kernel."


def decode(source):
    if not source.strip():
        raise Failure("invalid_argument", "parse", "the source is empty; send the kernel's text")
    if b"\0" in source:
        before = source[:source.index(b"\0")]
        raise Failure("invalid_argument", "parse", "the source contains a NUL byte; send text, not a binary",
                      before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        before = source[:error.start]
        raise Failure("invalid_argument", "parse", f"the source is not UTF-8, as text must be: byte {source[error.start]:#04x}",
                      before.count(b"\n") + 1, len(before) - before.rfind(b"\n")) from None


def argument_names(text, function):
    start = re.search(rf"tt\.func\s+(?:public\s+)?@\"?{re.escape(function)}\"?\s*\(", text)
    if not start:
        return []
    names, depth, position = [], 1, start.end()
    token = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|%([\w$.-]+)\s*:')
    while depth:
        found = token.search(text, position)
        if not found:
            return []
        position = found.end()
        depth += {"(": 1, ")": -1}.get(found.group(), 0)
        if found.group(1):
            names.append("" if re.fullmatch(r"arg\d+|\d+", found.group(1)) else found.group(1))
    return names
