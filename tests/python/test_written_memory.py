"""What a worker of a Triton copies ahead of its compile."""

import mmap
import os
import resource
import socket

from kiln_triton_worker.written_memory import PAGE, WrittenMemory


def test_a_worker_copies_what_a_compile_writes_to_and_nothing_else():
    block = memoryview(mmap.mmap(-1, 512 * PAGE, flags=mmap.MAP_PRIVATE))
    write_pages(block)  # which this process and its forks share from then on
    written = WrittenMemory(lambda: write_pages(block[:256 * PAGE]))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert faults_in_fork(lambda: write_pages(block[:256 * PAGE])) > 200
        assert faults_in_fork(lambda: write_pages(block[:256 * PAGE]), before=lambda: written.copy(ours)) < 100
        assert faults_in_fork(lambda: write_pages(block[256 * PAGE:]), before=lambda: written.copy(ours)) > 200
        theirs.send(b"a request")
        assert faults_in_fork(lambda: write_pages(block[:256 * PAGE]), before=lambda: written.copy(ours)) > 200


def test_a_compile_that_fails_leaves_nothing_to_copy():
    def fail():
        raise ValueError
    assert WrittenMemory(fail)._steps == []


def write_pages(block):
    for at in range(0, len(block), PAGE):
        block[at] = 1


def faults_in_fork(work, before=lambda: None):
    """How many page faults `work` takes in a fork that has done `before`."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        before()
        count = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        work()
        os.write(write_end, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - count).encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end) as file:
        count = int(file.read())
    os.wait()
    return count
