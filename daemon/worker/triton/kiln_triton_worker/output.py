"""What the compiler printed."""

import os


class Output:
    """What was written to fd 2 since construction. C++ code writes there, so it is read back from the file."""

    def __init__(self):
        try:
            self._start = os.lseek(2, 0, os.SEEK_CUR)
        except OSError:  # a pipe or a terminal
            self._start = None

    def text(self):
        if self._start is None:
            return ""
        end = os.lseek(2, 0, os.SEEK_CUR)
        begin = max(self._start, end - (1 << 20))
        return os.pread(2, end - begin, begin).decode("utf-8", "replace")
