"""Hits by the Python client, by a call and in the hot directory, beside a gRPC echo of the same sizes, in Python at both ends, in turns.
Prints {"echo": {"p50": […], "p99": […], "cpu_ms": […]}, …}: percentiles in µs and the client's processor time for a call, of each round.

    python_hits.py < REQUEST           a request with source, target and options, as JSON; KILN_ROOT names the daemon
    python_hits.py for SECONDS < REQUEST
                                       hits by calls alone, one each 2 ms, for so long; prints their p99 in µs
    python_hits.py serve SOCKET BYTES  the echo, whose replies have so many bytes
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

import grpc

ROUNDS = 20
CALLS = 100
METHOD = "/kiln.benchmarks.Echo/Call"


def serve(socket, reply_bytes):
    reply = b"x" * int(reply_bytes)
    handler = grpc.method_handlers_generic_handler("kiln.benchmarks.Echo", {"Call": grpc.unary_unary_rpc_method_handler(lambda *_: reply)})
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    sys.stdin.read()


def round_of(call):
    times, cpu = [], time.process_time()
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - began))
    times.sort()
    return {"p50": times[CALLS // 2], "p99": times[CALLS * 99 // 100], "cpu_ms": 1000 * (time.process_time() - cpu) / CALLS}


def measure(socket, echo, hits):
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(METHOD)
        call(echo, wait_for_ready=True)
        calls = {"echo": lambda: call(echo), **hits}
        rounds = [{name: round_of(one) for name, one in calls.items()} for _ in range(ROUNDS)]
    return {name: {figure: [each[name][figure] for each in rounds] for figure in ("p50", "p99", "cpu_ms")} for name in calls}


def connected():
    import kiln
    given = json.load(sys.stdin)
    return kiln.Client(answer_timeout=10), kiln.CompileRequest(given["source"], given["target"], options=given["options"])


def hits_for(seconds):
    client, request = connected()
    client.compile(request)
    times, end = [], time.perf_counter() + float(seconds)
    while (began := time.perf_counter()) < end:
        client._asked(request, None)
        times.append(1e6 * (time.perf_counter() - began))
        time.sleep(0.002)
    print(sorted(times)[len(times) * 99 // 100])


def main():
    from kiln import _wire
    client, request = connected()
    artifact = client.compile(request)
    assert client.compile(request).tier == "hot"
    hits = {"light": lambda: client._asked(request, None), "hot": lambda: client.compile(request)}
    sent, received = _wire.request_message(request).ByteSize(), sum(len(stage.content) for stage in artifact.stages.values())
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "echo.sock")
        with subprocess.Popen([sys.executable, __file__, "serve", socket, str(received)], stdin=subprocess.PIPE) as server:
            print(json.dumps(measure(socket, b"x" * sent, hits)))
            server.stdin.close()


if sys.argv[1:2] == ["serve"]:
    serve(*sys.argv[2:])
elif sys.argv[1:2] == ["for"]:
    hits_for(*sys.argv[2:])
else:
    main()
