"""How many random segments tests try. KILN_TEST_RANDOM_GRAPHS multiplies that, and tries others each time."""

import os

from hypothesis import HealthCheck, Phase, given, settings

from random_segments.strategies import segments

_FACTOR = int(os.environ.get("KILN_TEST_RANDOM_GRAPHS", "1"))


def examples(count, **more):
    # A segment is large, and takes long to draw.
    return settings(max_examples=count * _FACTOR, deadline=None, database=None, derandomize=_FACTOR == 1,
                    suppress_health_check=list(HealthCheck), **more)


def drawn(count, operations_max, **more):
    """So many segments, for what runs many at once."""
    made = []

    @examples(count, phases=[Phase.generate])
    @given(segments(operations_max, **more))
    def collect(segment):
        made.append(segment)

    collect()
    return made
