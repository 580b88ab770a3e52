"""A driver for Triton's Autotuner on a machine without a GPU: launches nothing, and says how long each launch took."""

import hashlib
import time


class StandInDriver:
    """Remembers what was launched by the digest of its binary, which also gives the time that it takes: 1 to 2 ms.

    model, processors: of the device. waits: a launch does take its time.
    """

    def __init__(self, target, model="Stand-in 1", processors=132, waits=False):
        self.launched = []
        self.utils = self
        self._target, self._model, self._processors, self._waits = target, model, processors, waits
        self._now_ms = 0.0

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_device_properties(self, device):
        return {"max_shared_mem": 227 << 10, "multiprocessor_count": self._processors}

    def load_binary(self, name, binary, shared, device):
        return object(), hashlib.sha256(binary).hexdigest(), 32, 0, 1024

    def launcher_cls(self, source, metadata):
        return lambda x, y, z, stream, function, *rest: self._launch(function)

    def _launch(self, function):
        self.launched.append(function)
        milliseconds = 1 + int(function[:8], 16) / 2**32
        self._now_ms += milliseconds
        if self._waits:
            time.sleep(milliseconds / 1000)

    # What triton.testing.do_bench needs.

    def get_benchmarker(self):
        from triton import testing
        return testing.do_bench

    def get_device_interface(self):
        return self

    def get_device_name(self, device):
        return self._model

    def get_empty_cache_for_benchmark(self):
        return None

    def clear_cache(self, cache):
        pass

    def synchronize(self):
        pass

    def Event(self, enable_timing):
        return _Event(lambda: self._now_ms)


class _Event:

    def __init__(self, now):
        self._now = now

    def record(self):
        self._at = self._now()

    def elapsed_time(self, end):
        return end._at - self._at
