"""Dependencies of the source tree run one way (docs/architecture.md)."""

import collections
import pathlib
import re
import subprocess

import pytest
from places import ROOT

# What each folder may include besides its own headers and those of storage/base. The table has no cycle, since every name
# stands above its line.
MAY_INCLUDE = {
    "storage/base": (),
    "storage": (),
    "storage/bundle": (),
    "storage/hot": ("storage",),
    "storage/rocks": ("storage",),
    "daemon/kernel": ("storage",),
    "daemon/messages": ("storage", "daemon/kernel"),
    "daemon/process": (),
    "daemon/sandbox": ("daemon/process",),
    "daemon/toolchain": ("storage", "daemon/kernel", "daemon/process"),
    "daemon/policy": ("daemon/kernel", "daemon/process"),
    "daemon/worker": ("daemon/kernel", "daemon/process"),
    "daemon/worker/native": ("daemon/kernel", "daemon/process", "daemon/sandbox", "daemon/worker"),
    "daemon/pool": ("daemon/kernel", "daemon/process", "daemon/sandbox", "daemon/worker"),
    "daemon/chain": ("storage", "daemon/kernel", "daemon/process", "daemon/sandbox", "daemon/policy", "daemon/pool"),
    "daemon/config": (),
    "daemon/observe": ("daemon/kernel",),
    "daemon/rpc/sockets": (),
    "daemon/rpc": ("storage", "storage/bundle", "daemon/kernel", "daemon/messages",
                   "daemon/toolchain", "daemon/policy", "daemon/chain", "daemon/observe", "daemon/rpc/sockets"),
    "daemon/rpc/light": ("daemon/rpc/sockets", "daemon/rpc"),
    "daemon": ("storage", "storage/hot", "storage/rocks", "daemon/kernel", "daemon/messages", "daemon/process", "daemon/sandbox",
               "daemon/toolchain", "daemon/policy", "daemon/chain", "daemon/config", "daemon/observe", "daemon/rpc/sockets", "daemon/rpc", "daemon/rpc/light"),
    "client/rpc": ("storage/hot", "daemon/kernel", "daemon/messages"),
    "client/launch/artifact": ("storage/hot",),
    "client/launch/driver": ("client/launch/artifact",),
    "client/launch": ("client/launch/artifact", "client/launch/driver"),
    "client/jax": ("client/launch",),
    "client/graph/program": (),
    "client/graph/segment": ("client/graph/program",),
    "client/graph/operators": ("client/graph/program", "client/graph/segment"),
    "client/graph/operators/layers": ("client/graph/segment", "client/graph/operators"),
    "client/graph/onnx": ("client/graph/program", "client/graph/segment", "client/graph/operators"),
    "client/graph/sections": (),
    "client/graph/plan": ("client/graph/program", "client/graph/segment", "client/graph/operators", "client/graph/operators/layers",
                          "client/graph/sections"),
    "client/graph/emit": ("client/graph/program", "client/graph/sections"),
    "client/graph/emit/triton": ("client/graph/program", "client/graph/sections", "client/graph/emit"),
    "client/graph/compile": ("client/launch", "client/graph/program", "client/graph/segment", "client/graph/operators",
                             "client/graph/plan", "client/graph/emit", "client/graph/emit/triton"),
    "client/graph/run": ("client/launch", "client/graph/program", "client/graph/segment", "client/graph/compile"),
    "client/graph/c_api": ("client/graph/segment", "client/graph/operators", "client/graph/onnx", "client/graph/compile", "client/graph/run"),
    "client/cli/output": (),
    "client/cli/requests": ("storage/bundle", "client/rpc", "client/cli/output"),
    "client/cli/graph": ("client/graph/segment", "client/graph/operators", "client/graph/onnx",
                         "client/graph/compile", "client/cli/output", "client/cli/requests"),
    "client/cli/commands": ("storage/hot", "client/rpc", "client/cli/output", "client/cli/requests", "client/cli/graph"),
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
    r"kiln/(admin/)?v1/": {"daemon/messages", "daemon/rpc", "daemon/rpc/light", "client/rpc", "client/cli/output", "client/cli/requests",
                           "client/cli/graph", "client/cli/commands"},
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
        if path.parts[0] in ("storage", "daemon", "client") and path.suffix in (".h", ".cc", ".c"):
            for included in re.findall(r'^#include ["<]([^">]+)[">]', (ROOT / path).read_text("utf-8"), re.MULTILINE):
                yield str(path.parent), str(path), included


def test_the_table_has_no_cycle():
    above = set()
    for folder, others in MAY_INCLUDE.items():
        assert above.issuperset(others), f"{folder} names a folder that stands below it"
        above.add(folder)


def test_includes_run_one_way():
    used = collections.defaultdict(set)
    wrong = []
    for folder, path, included in includes():
        assert folder in MAY_INCLUDE, f"{path}: say in MAY_INCLUDE what {folder} may include"
        other = str(pathlib.PurePosixPath(included).parent)
        if not included.startswith(("storage/", "daemon/", "client/", "tests/")) or other in (folder, "storage/base"):
            continue
        used[folder].add(other)
        if other not in MAY_INCLUDE[folder]:
            wrong.append(f"{path} includes {included}")
    assert not wrong, "\n".join(wrong)
    unused = {folder: extra for folder, others in MAY_INCLUDE.items() if (extra := set(others) - used[folder])}
    assert not unused, f"MAY_INCLUDE names what nobody includes: {unused}"


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
