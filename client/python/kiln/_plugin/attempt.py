"""What the plug-in tries beside Triton: a failure costs a line of the debug log, and nothing else."""

import contextlib
from typing import Iterator, Tuple, Type

from kiln._plugin.settings import LOG
from kiln._signals import reraise_from_handler


@contextlib.contextmanager
def attempt(what: str, foreseen: "Tuple[Type[Exception], ...]" = ()) -> Iterator[None]:
    """Ends the block at its first exception, and logs that `what` was not done, and why. Lets a signal handler's exception pass."""
    try:
        yield
    except Exception as error:
        reraise_from_handler(error)
        LOG.debug("kiln: not done: %s: %s", what, error, exc_info=not isinstance(error, foreseen))
