"""A job that compiles kernels with Triton, run under a toolchain's own Python; job.py drives it.

    <toolchain>/bin/python triton_job.py FOLDER [KEYS]

FOLDER/source holds the example kernels' modules. They are imported and removed; Triton 3.4.0 reads them again for each compile, and for it
they stay. Its ptxas writes no time and size of a file into the line table, as that of a worker does, so that their files can be
compared byte by byte. Then each line of standard input is a command, an
object of JSON, and each answer a line of standard output. Jobs keep Triton's key for itself in the folder KEYS: computing the key
takes longer than compiling a kernel.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import pathlib
import resource
import shutil
import signal
import sys
import threading
import time
import traceback
from dataclasses import replace

folder = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(folder / "source"))

import blind_ptxas  # noqa: E402, F401
import catalog  # noqa: E402
import triton  # noqa: E402
import tritons_key  # noqa: E402
from patience import be_patient  # noqa: E402
from stand_in_driver import StandInDriver  # noqa: E402
from triton import knobs  # noqa: E402

if triton.__version__ == "3.4.0":
    atexit.register(shutil.rmtree, folder / "source")
else:
    shutil.rmtree(folder / "source")

if len(sys.argv) > 2:
    tritons_key.remember(pathlib.Path(sys.argv[2]) / triton.__version__)

lowered = []
make_ir = triton.compiler.ASTSource.make_ir


def counted_make_ir(source, *arguments):
    lowered.append(source.name)
    return make_ir(source, *arguments)


triton.compiler.ASTSource.make_ir = counted_make_ir


def compiled(kernel, target, options=None):
    instance = next(one for one in catalog.instances() if one.name == kernel)
    gpu = catalog.gpu_target(target)
    return triton.compile(catalog.ast_source(instance, gpu.backend), target=gpu,
                          options={**instance.options_for(gpu.backend), **(options or {})})


def compile_kernel(kernel, target, options=None):
    started = time.monotonic()
    try:
        done = compiled(kernel, target, options)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error), "seconds": time.monotonic() - started}
    return {"hash": done.hash, "seconds": time.monotonic() - started}


def cases(targets):
    return {"cases": [(instance.name, target) for instance, target in catalog.cases(targets)]}


def in_children(count, command):
    """Each child runs the command; their answers in the order of their start."""
    pipes = []
    for _ in range(count):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            try:
                answer = {**run(command), "report": report(), "threads": threading.active_count()}
            except BaseException:
                answer = {"error": "driver", "message": traceback.format_exc()}
            os.write(writing, json.dumps(answer).encode())
            os._exit(0)
        os.close(writing)
        pipes.append((pid, reading))
    answers = []
    for pid, reading in pipes:
        with open(reading, "rb") as file:
            answers.append(json.loads(file.read() or b'{"error": "died"}'))
        os.waitpid(pid, 0)
    return {"answers": answers}


def in_threads(count, command):
    answers = [None] * count

    def work(index):
        answers[index] = run(command)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"answers": answers}


def report():
    if "kiln._report" not in sys.modules:
        return None
    import kiln
    return vars(kiln.report())


def state():
    """What the process holds because of the plug-in."""
    return {"modules": sorted(set(sys.modules) & {"grpc", "google.protobuf", "kiln", "kiln.triton", "kiln.client"}),
            "has_code_generator": "triton.compiler.code_generator" in sys.modules,
            "threads": threading.active_count(), "version": triton.__version__, "lowered": len(lowered)}


def allow_no_more_processes():
    """As for a user who has as many as are allowed. Root is not limited, so another user is charged, and rights are given up."""
    if os.geteuid() == 0:
        os.setresuid(65534, 0, 0)
        libc = ctypes.CDLL(None)
        process, rights = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert libc.capget(process, rights) == 0
        rights[0] &= ~(1 << 21 | 1 << 24)  # CAP_SYS_ADMIN, CAP_SYS_RESOURCE
        assert libc.capset(process, rights) == 0
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    return check_that_no_thread_starts()


def check_that_no_thread_starts():
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return {"done": True}
    raise AssertionError("a thread started")


def set_knob(group, name, value):
    setattr(getattr(knobs, group), name, value)
    return {"done": True}


def set_variable(name, value):
    """None takes it back."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
    return {"done": True}


def imported(module):
    __import__(module)
    return state()


def forget(module):
    """The kernel stays, and its module is none any more."""
    del sys.modules[module]
    return {"done": True}


def imported_without_hook():
    """As in a Triton that has none."""
    kind = type(knobs.runtime)
    hook = kind.add_stages_inspection_hook
    del kind.add_stages_inspection_hook
    __import__("kiln.triton")
    kind.add_stages_inspection_hook = hook
    return {"done": True}


def plant(hash, kernel, options, name):
    """Another file in the group that this user's processes keep of a kernel for cuda:90."""
    import kiln
    from kiln._plugin import groups
    from triton.compiler.compiler import make_backend
    instance = next(one for one in catalog.instances() if one.name == kernel)
    parsed = make_backend(catalog.gpu_target("cuda:90")).parse_options({**instance.options_for("cuda"), **options})
    key = groups._key(groups._folder(hash), f"{kernel}.json", (catalog.ast_source(instance, "cuda"), parsed))
    with kiln.Client() as client:
        files = client.get_own([key])[key]
        client.put_own({key: {**files, name: b"planted"}})
    return {"files": len(files)}


def fingerprint():
    from kiln._plugin import identity
    started = time.monotonic()
    value = identity.toolchain_fingerprint()
    return {"fingerprint": value, "seconds": time.monotonic() - started}


def triton_key():
    __import__("kiln.triton")
    from triton.runtime import autotuner, cache
    started = time.monotonic()
    value = cache.triton_key()
    seconds = time.monotonic() - started
    return {"key": value, "autotuner": autotuner.triton_key(), "seconds": seconds}


def hook_without_arguments():
    hook = knobs.runtime.add_stages_inspection_hook
    started = time.perf_counter()
    for _ in range(100_000):
        hook()
    return {"value": hook(), "nanoseconds": (time.perf_counter() - started) * 1e4}


def hide(name):
    """As where there is no such module: what has it already keeps it."""
    package, _, last = name.rpartition(".")
    if last in vars(sys.modules.get(package, object)):
        delattr(sys.modules[package], last)
    sys.modules[name] = None


def import_without_knobs():
    kept = sys.modules["triton.knobs"]
    hide("triton.knobs")
    __import__("kiln.triton")
    sys.modules["triton.knobs"] = triton.knobs = kept


def make_key_plain():
    from triton.runtime import cache
    compute = cache.triton_key.__wrapped__
    cache.triton_key = compute


def hide_pruning():
    from triton.runtime.autotuner import Autotuner
    del Autotuner.prune_configs


def call_hook_by_names():
    __import__("kiln.triton")
    hook = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = lambda *given: hook(**dict(zip(("self", "stages", "options", "language", "more"), given)))


def call_hook_by_other_names():
    __import__("kiln.triton")
    hook = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = lambda *given: hook(**dict(zip(("a", "b", "c", "d", "e"), given)))


def break_key():
    __import__("kiln.triton")
    from kiln._plugin import identity

    def fail(*_, **__):
        raise UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")

    identity.triton_key = fail


CHANGES = {
    "the key is a plain function": make_key_plain, "no configurations are pruned": hide_pruning,
    "the hook is called by names": call_hook_by_names, "the hook is called by other names": call_hook_by_other_names,
    "the key is broken": break_key, "no triton.knobs": import_without_knobs, **{
        f"no {name}": functools.partial(hide, name)
        for name in ("triton.runtime.build", "triton.runtime.autotuner", "kiln._plugin.pipeline", "kiln._plugin.groups")}
}


def compile_with_changed(what, variables=None, **arguments):
    """With a Triton that is not as it is known, or with a part of Kiln that does not fit it."""
    os.environ.update(variables or {})
    CHANGES[what]()
    return compile_kernel(**arguments)


def break_import(name):
    """Tells how often it was tried."""
    tries = []

    class Finder:

        @staticmethod
        def find_spec(asked, path=None, target=None):
            if asked == name:
                tries.append(asked)
                raise TypeError("Descriptors cannot be created directly.")

    sys.meta_path.insert(0, Finder)
    importlib.invalidate_caches()
    return tries


def compile_twice_without(module):
    tries = break_import(module)
    answers = [compile_kernel("vector_add", "cuda:90", {"num_stages": stages}) for stages in (2, 3)]
    return {"answers": answers, "tries": len(tries)}


def hidden(module):
    hide(module)
    return {"done": True}


def gone(artifact):
    from kiln.errors import NotFoundError
    raise NotFoundError("no such blob")


def with_content(artifact, stage, content):
    return replace(artifact, stages={**artifact.stages, stage: replace(artifact.stages[stage], content=content)})


SPOILED = {
    "gone": gone,
    "no llir": lambda one: replace(one, stages={name: stage for name, stage in one.stages.items() if name != "llir"}),
    "no cubin": lambda one: with_content(one, "cubin", b""),
    "no text": lambda one: with_content(one, "ptx", b"\xff\xfe"),
    "no metadata": lambda one: replace(one, metadata=replace(one.metadata, toolchain_metadata="")),
    "no name": lambda one: replace(one, metadata=replace(one.metadata, toolchain_metadata="{}")),
}


def spoil(how):
    """What the client answers from now on."""
    from kiln.client import Client
    compile_one = Client.compile
    compile_one = getattr(compile_one, "__wrapped__", compile_one)

    @functools.wraps(compile_one)
    def spoiled(self, request, **more):
        return SPOILED[how](compile_one(self, request, **more))

    Client.compile = spoiled
    return {"done": True}


def load(kernel, target, options):
    """Compiles it and prepares to launch it, on a device with 227 KiB of shared memory."""
    from triton.runtime.driver import driver
    driver.set_active(StandInDriver(catalog.gpu_target(target)))
    done = compiled(kernel, target, options)
    try:
        done[(1, 1, 1)]
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error), "shared": done.metadata.shared}
    return {"hash": done.hash, "shared": done.metadata.shared}


class Calls:
    """Those of a function: `all`, `at_once` the most of them, `urgent` those that somebody waits for, `begins_urgent` the first."""

    def __init__(self, owner, name):
        self.all = self.at_once = self.urgent = self._under_way = 0
        self.begins_urgent = False
        self._lock, self._call = threading.Lock(), getattr(owner, name)
        setattr(owner, name, lambda *arguments, **more: self._count(*arguments, **more))

    def _count(self, first, second, *arguments, **more):
        with self._lock:
            self._under_way += 1
            self.all += 1
            self.at_once = max(self.at_once, self._under_way)
            is_urgent = getattr(second, "priority", "") == "waiting-rank"
            self.urgent += is_urgent
            self.begins_urgent = self.begins_urgent or is_urgent and self.all == 1
        try:
            return self._call(first, second, *arguments, **more)
        finally:
            with self._lock:
                self._under_way -= 1


def count_calls():
    """Of the client's, of what takes long in Triton's stages, and of what comes before the stages."""
    from kiln.client import Client
    from triton._C.libtriton import llvm
    return Calls(Client, "compile"), Calls(llvm, "optimize_module"), Calls(triton.compiler.ASTSource, "make_ir")


class Odd:
    """A kernel that cannot be looked into."""

    def __init__(self, kernel):
        self.run = kernel.run

    @property
    def fn(self):
        raise ValueError("there is none")


def compile_counting_folders(kernel, target, remove=False):
    """How many Triton removes on the way. remove: so does somebody else, with all that is in the cache."""
    remove_folders, manager_class = os.removedirs, knobs.cache.manager_class
    put, removed = manager_class.put, []

    def counted(path):
        removed.append(path)
        remove_folders(path)

    def after_removal(manager, data, filename, **more):
        if filename.endswith(".source"):
            assert manager.cache_dir  # has been made
            shutil.rmtree(knobs.cache.dir)
        return put(manager, data, filename, **more)

    os.removedirs = counted
    if remove:
        manager_class.put = after_removal
    return {**compile_kernel(kernel, target), "removed": len(removed)}


def lower_slowly(seconds):
    quick = triton.compiler.ASTSource.make_ir

    def slow(*arguments, **more):
        time.sleep(seconds)
        return quick(*arguments, **more)

    triton.compiler.ASTSource.make_ir = slow
    return {"done": True}


def autotune(blocks, pre_hook=False, bad=None, hooked=False, odd=False, size=4096, heuristics=False):
    """vector_add with each of these blocks and 4 and 8 warps. `bad`: an option that breaks the first configuration. `hooked`: the name
    of a hook of the program's own. `odd`: the tuner has a kernel of the program's own kind. `heuristics`: a function of the program's gives
    the block."""
    from triton.runtime.driver import driver
    from triton.runtime.jit import MockTensor
    from vector_add import vector_add
    stand_in = StandInDriver(catalog.gpu_target("cuda:90"))
    driver.set_active(stand_in)
    asked, local, lowering = count_calls() if "TRITON_CACHE_MANAGER" in os.environ else (None, None, None)
    begun_ahead, warmup = [], vector_add.warmup

    def noted_warmup(*arguments, **keywords):
        begun_ahead.append(keywords["BLOCK"] // keywords["num_warps"])
        return warmup(*arguments, **keywords)

    vector_add.warmup = noted_warmup

    def bench(call, quantiles):
        call()
        return [int(stand_in.launched[-1][:8], 16)] * 3

    configs = [triton.Config({"BLOCK": block}, num_warps=warps, pre_hook=(lambda _: None) if pre_hook else None)
               for block in blocks for warps in (4, 8)]
    if bad is not None:
        configs[0].kwargs["ptx_options"] = bad
    if hooked:
        group, name = hooked
        setattr(getattr(knobs, group), name, lambda **_: None)
    asked_in = []  # is it the main thread?

    def block(arguments):
        asked_in.append(threading.current_thread() is threading.main_thread())
        return arguments["BLOCK"]

    tuned = triton.autotune(configs, key=["n"], do_bench=bench)(triton.heuristics({"BLOCK": block})(vector_add) if heuristics else vector_add)
    if odd:
        tuned.fn = Odd(tuned.fn)
    pointer = MockTensor(triton.language.float32)
    tuned[(4,)](pointer, pointer, pointer, size)
    return {"launched": stand_in.launched, "asked_in": asked_in, "best": str(tuned.best_config), "timings": list(map(str, tuned.configs_timings.values())),
            "at_once": asked and asked.at_once, "urgent": asked and asked.urgent, "asked": asked and asked.all,
            "begins_urgent": asked and asked.begins_urgent,
            "at_once_here": local and local.at_once, "lowered_at_once": lowering and lowering.at_once, "lowered": lowering and lowering.all,
            "begun_ahead": begun_ahead}


def interrupt_autotuning(blocks, daemon):
    """As Ctrl-C does, when the first of the configurations is asked for, of a daemon that does not answer any more: its process, which goes
    on afterwards."""
    from kiln.client import Client
    from kiln.errors import CallCancelledError
    compile_one, under_way, cancelled = Client.compile, [], []
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background has it ignored

    def interrupting(*arguments, **more):
        under_way.append(arguments)
        if len(under_way) == 1:
            os.kill(daemon, signal.SIGSTOP)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            return compile_one(*arguments, **more)
        except CallCancelledError:
            cancelled.append(arguments)
            raise
        finally:
            under_way.remove(arguments)

    Client.compile = interrupting
    try:
        return autotune(blocks)
    except KeyboardInterrupt:
        return {"cancelled": len(cancelled), "under_way": len(under_way), "report": report()}
    finally:
        os.kill(daemon, signal.SIGCONT)
        Client.compile = compile_one


class Preempted(Exception):
    """Says that the job is to save what it has and end."""


def stop(process):
    """None of its threads does anything any more."""
    os.kill(process, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{process}/task")
    while any(stat.read_text().rpartition(")")[2].split()[0] != "T" for stat in threads.glob("*/stat")):
        time.sleep(0.001)


def preempt(command, daemon, method):
    """Runs the command with a daemon that does not answer any more once that method of the client is called: its process, which goes on
    afterwards. A signal comes meanwhile, whose handler raises."""
    from kiln.client import Client
    called = getattr(Client, method)

    def handle(number, frame):
        raise Preempted("the machine is taken away")

    def calling(*arguments, **more):
        stop(daemon)  # before other threads call the method itself
        setattr(Client, method, called)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        return called(*arguments, **more)

    signal.signal(signal.SIGALRM, handle)
    setattr(Client, method, calling)
    started = time.monotonic()
    try:
        return run(command)
    except Preempted as error:  # where the command itself lets it pass
        return {"error": type(error).__name__, "message": str(error), "seconds": time.monotonic() - started}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.kill(daemon, signal.SIGCONT)
        setattr(Client, method, called)


def preempt_naming():
    """Has a signal come, whose handler raises, while the plug-in asks for the name of a kernel."""
    from kiln._plugin import pipeline

    class Module:

        def get_entry_func_name(self):
            signal.raise_signal(signal.SIGUSR1)

    def handle(number, frame):
        raise Preempted("the machine is taken away")

    signal.signal(signal.SIGUSR1, handle)
    try:
        return {"name": pipeline._name(Module())}
    except Preempted as error:
        return {"error": type(error).__name__}


def run_without_collecting(command):
    """And how many of the plug-in's requests are still there, and of what it has been declined with."""
    from kiln._plugin.service import Declined
    from kiln.request import CompileRequest
    gc.collect()
    gc.disable()
    try:
        answer = run(command)
        return {**answer, "left": sum(issubclass(type(one), (CompileRequest, Declined)) for one in gc.get_objects())}
    finally:
        gc.enable()


def build_driver():
    """What Triton builds when it first uses a GPU."""
    from triton.backends.nvidia.driver import CudaUtils
    return unloadable(CudaUtils)


def build_launcher(signature):
    """Up to 3.6 there is one for each signature."""
    from triton.backends.nvidia import driver
    from triton.runtime.build import compile_module_from_src
    source = driver.make_launcher({}, dict(enumerate(signature)), None)
    return unloadable(lambda: compile_module_from_src(
        src=source, name="__triton_launcher", library_dirs=driver.library_dirs(), include_dirs=driver.include_dirs,
        libraries=driver.libraries))


LOADABLE = """
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "loadable"};
PyMODINIT_FUNC PyInit_loadable(void) { return PyModule_Create(&module); }
"""


def build_loadable():
    """A library that needs no driver."""
    from triton.runtime.build import compile_module_from_src
    return {"name": compile_module_from_src(src=LOADABLE, name="loadable").__name__}


def unloadable(build):
    """Without a driver it cannot be loaded, which comes after."""
    try:
        build()
    except ImportError as error:
        return {"error": str(error)}
    return {"error": ""}


COMMANDS = {
    "compile": compile_kernel, "cases": cases, "be patient": be_patient, "no more processes": allow_no_more_processes, "no thread": check_that_no_thread_starts, "children": in_children, "threads": in_threads, "state": state, "knob": set_knob,
    "variable": set_variable, "import": imported, "import without hook": imported_without_hook, "plant": plant, "forget": forget, "fingerprint": fingerprint,
    "hook": hook_without_arguments, "changed": compile_with_changed, "compile twice without": compile_twice_without, "spoil": spoil, "hide": hidden,
    "triton_key": triton_key, "driver": build_driver, "launcher": build_launcher, "loadable": build_loadable,
    "report": lambda: {"report": report()},
    "compile counting folders": compile_counting_folders, "autotune": autotune, "lower slowly": lower_slowly, "load": load,
    "interrupt autotuning": interrupt_autotuning, "preempt": preempt, "preempt naming": preempt_naming, "without collecting": run_without_collecting,
}


def run(command):
    (name, arguments), = command.items()
    return COMMANDS[name](**arguments)


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
