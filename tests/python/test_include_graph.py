"""Dependencies of the source tree run one way (docs/architecture.md)."""

import collections
import pathlib
import re
import subprocess

import pytest
from places import ROOT

# What each folder may include besides its own headers and those of the folders that they may include. A folder stands below
# those that it names, so the table has no cycle if every name stands above its line.
MAY_INCLUDE = {
    "storage/base": (),
    "storage": ("storage/base",),
    "storage/bundle": ("storage/base",),
    "storage/hot": ("storage",),
    "storage/rocks": ("storage",),
    "daemon/kernel": ("storage",),
    "daemon/messages": ("daemon/kernel",),
    "daemon/process": ("storage/base",),
    "daemon/sandbox": ("daemon/process",),
    "daemon/toolchain": ("daemon/kernel", "daemon/process"),
    "daemon/policy": ("daemon/kernel", "daemon/process"),
    "daemon/worker": ("daemon/kernel", "daemon/process"),
    "daemon/worker/native": ("daemon/worker", "daemon/sandbox"),
    "daemon/pool": ("daemon/worker", "daemon/sandbox"),
    "daemon/chain": ("daemon/policy", "daemon/pool", "storage/hot"),
    "daemon/config": ("storage/base",),
    "daemon/observe": ("daemon/chain",),
    "daemon/rpc/sockets": ("storage/base",),
    "daemon/rpc": ("daemon/messages", "daemon/observe", "daemon/rpc/sockets", "daemon/toolchain", "storage/bundle"),
    "daemon/rpc/light": ("daemon/rpc",),
    "daemon": ("daemon/rpc/light", "daemon/config", "storage/rocks"),
    "client/rpc": ("daemon/messages", "storage/hot"),
    "client/launch/artifact": ("storage/base", "storage/hot"),
    "client/launch/driver": ("client/launch/artifact",),
    "client/launch": ("client/launch/driver",),
    "client/jax": ("client/launch",),
    "client/graph/program": ("storage/base",),
    "client/graph/segment": ("client/graph/program",),
    "client/graph/operators": ("client/graph/segment",),
    "client/graph/operators/layers": ("client/graph/operators",),
    "client/graph/onnx": ("client/graph/operators",),
    "client/graph/plan": ("client/graph/operators",),
    "client/graph/emit": ("client/graph/program",),
    "client/graph/emit/triton": ("client/graph/emit",),
    "client/graph/compile": ("client/graph/plan", "client/graph/emit/triton"),
    "client/graph/run": ("client/graph/compile", "client/launch"),
    "client/graph/c_api": ("client/graph/onnx", "client/graph/run"),
    "client/cli/output": ("storage/base",),
    "client/cli/requests": ("client/cli/output", "client/rpc", "storage/bundle"),
    "client/cli/graph": ("client/cli/requests", "client/graph/compile", "client/graph/onnx"),
    "client/cli/commands": ("client/cli/graph",),
    "client/cli": ("client/cli/commands",),
}
# From storage/hot a client may have the file format and what reads it, nothing that writes. From the daemon libkiln has what
# makes a request into a key and a stored document into an answer, so that it gives what the daemon would (docs/adr/0060).
CLIENT_MAY_READ = {"storage/hot/artifact_file.h", "storage/hot/artifact_layout.h", "storage/bundle/bundle_format.h", "storage/bundle/signature.h",
                   "storage/bundle/zstd_frame.h"}
LIBKILN_MAY_READ = {"daemon/kernel/artifact_document.h", "daemon/kernel/request_resolver.h", "daemon/kernel/toolchain.h",
                    "daemon/messages/translate.h"}
# A worker in C++ knows the protocol's values and the options of compilers, and nothing else of what the daemon keeps.
NATIVE_WORKER_MAY_READ = {"daemon/kernel/command_option.h", "daemon/kernel/kernel.h", "daemon/kernel/metadata_fields.h",
                          "daemon/kernel/option_json.h", "daemon/kernel/ptx_options.h"}
# Libraries that one folder may include.
AT_HOME = {
    r"grpc(pp)?/": {"daemon/rpc", "client/rpc"},
    r"rocksdb/": {"storage/rocks"},
    r"protozero/": {"client/graph/onnx", "client/launch/artifact"},
    r"xla/": {"client/jax"},
    r"CLI/": {"daemon", "daemon/worker/native", "client/cli", "client/cli/commands"},
    r"toml\+\+|toml\.hpp": {"daemon/config"},
    r"seccomp\.h": {"daemon/sandbox"},
}
FILES_MAX = 45  # a folder is one idea


def tracked():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("no git checkout")
    return [pathlib.PurePosixPath(line) for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def includes():
    """(folder, file, what it includes) of each include line in the production code."""
    for path in tracked():
        if path.parts[0] in ("storage", "daemon", "client") and path.suffix in (".h", ".cc"):
            for included in re.findall(r'^#include ["<]([^">]+)[">]', (ROOT / path).read_text("utf-8"), re.MULTILINE):
                yield str(path.parent), str(path), included


def reachable(folder):
    found = set()
    queue = [folder]
    while queue:
        for other in MAY_INCLUDE[queue.pop()]:
            if other not in found:
                found.add(other)
                queue.append(other)
    return found


def test_the_table_has_no_cycle():
    above = set()
    for folder, others in MAY_INCLUDE.items():
        assert above.issuperset(others), f"{folder} names a folder that stands below it"
        above.add(folder)


def test_includes_run_one_way():
    wrong = []
    for folder, path, included in includes():
        assert folder in MAY_INCLUDE, f"{path}: say in MAY_INCLUDE what {folder} may include"
        other = str(pathlib.PurePosixPath(included).parent)
        if not included.startswith(("storage/", "daemon/", "client/")) or other == folder:
            continue
        if other not in reachable(folder):
            wrong.append(f"{path} includes {included}")
    assert not wrong, "\n".join(wrong)


def test_clients_include_readers_alone():
    assert not [f"{path} includes {included}" for folder, path, included in includes()
                if folder.startswith("client/") and included.startswith(("storage/", "daemon/")) and not included.startswith("storage/base/")
                and included not in CLIENT_MAY_READ | (LIBKILN_MAY_READ if folder == "client/rpc" else set())]


def test_the_native_worker_knows_the_protocol_alone():
    assert not [f"{path} includes {included}" for folder, path, included in includes()
                if folder == "daemon/worker/native" and included.startswith("daemon/kernel/") and included not in NATIVE_WORKER_MAY_READ]


@pytest.mark.parametrize("library", AT_HOME)
def test_a_library_stays_in_its_folder(library):
    used = [(folder, path) for folder, path, included in includes() if re.match(library, included)]
    assert used, f"nothing includes {library}: mend AT_HOME"
    assert not [path for folder, path in used if folder not in AT_HOME[library]]


def test_no_folder_is_crowded():
    files = collections.Counter(str(path.parent) for path in tracked())
    del files["docs/adr"]  # decisions only become more
    assert not {folder: count for folder, count in files.items() if count > FILES_MAX}
