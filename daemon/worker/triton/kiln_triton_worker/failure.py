"""That a source does not compile, in the words of the protocol."""

OUTPUT_BYTES_MAX = 64 << 10
PLACE_MAX = 1 << 30
MESSAGE_CHARS_MAX = 1000


class Failure(Exception):
    """The source does not compile: what, where and whose fault.

    `code` is invalid_argument or resource_exhausted; internal where a program gave out before anything was decided;
    unavailable and failed_precondition where the machine, or its operator, lacks something that is not the source's
    business. `deterministic` says that trying again cannot help, and is True of the first two alone.
    """

    def __init__(self, code, stage, message, line=0, column=0, output="", deterministic=True):
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.line = line
        self.column = column
        self.output = output
        self.deterministic = deterministic

    def to_json(self):
        return {
            "code": self.code,
            "stage": self.stage,
            "message": one_line(str(self)),
            "line": place(self.line),
            "column": place(self.column),
            "output": self.output.encode("utf-8", "replace")[-OUTPUT_BYTES_MAX:].decode("utf-8", "ignore"),
            "deterministic": self.deterministic,
        }


def place(number):
    """A line or a column as the daemon takes it. What a source says of its own place (loc) can be anything; 0 is none."""
    return number if 0 <= number <= PLACE_MAX else 0


def one_line(text):
    text = " ".join(str(text).split())
    return text if len(text) <= MESSAGE_CHARS_MAX else text[:MESSAGE_CHARS_MAX] + " …"


def shortened(name):
    return repr(name if len(name) <= 80 else name[:80] + "…")
