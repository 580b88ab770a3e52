#include "client/cli/reproducer.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/cli/format.h"
#include "client/cli/json.h"
#include "client/cli/output_directory.h"

namespace kiln::cli {
namespace {

// Needs nothing but the toolchain's own Python. What it asks of Triton is what kilnd's workers ask.
constexpr std::string_view kTritonScript = R"script(#!/usr/bin/env python3
"""Compiles the kernel beside it as kilnd did, without kilnd. Written by `kiln reproduce`.

Run it with the Python of the toolchain that expected.json names; no GPU is needed. For a Triton from PyPI:

    python3 -m venv venv && venv/bin/pip install triton==VERSION && venv/bin/python reproduce.py

Every stage ends up in out/. Exit status: 0 as expected, 1 otherwise.
"""

import hashlib
import json
import os
import shutil
import sys

os.chdir(os.path.dirname(os.path.abspath(__file__)))
with open("expected.json") as file:
    expected = json.load(file)
with open("request.jsonl") as file:
    request = json.load(file)

if "ptxas" in request:
    # PyTorch's, say, and not the toolchain's own.
    ptxas = os.environ.get("TRITON_PTXAS_PATH", "")
    with open(ptxas or os.devnull, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != request["ptxas"]:
            sys.exit(f"set TRITON_PTXAS_PATH to the ptxas whose SHA-256 is {request['ptxas']}")
    os.environ["TRITON_PTXAS_BLACKWELL_PATH"] = ptxas

# Read when triton is imported. The stages are left in the cache, in a directory of their own.
shutil.rmtree("out", ignore_errors=True)
os.environ["TRITON_CACHE_DIR"] = os.path.abspath("out")

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402


def to_tuples(value):
    return tuple(map(to_tuples, value)) if isinstance(value, list) else value


backend, architecture, *warp_size = request["target"].split(":")
if warp_size:
    warp_size = int(warp_size[0])
else:
    warp_size = 64 if backend == "hip" and len(architecture) == 6 else 32
target = GPUTarget(backend, int(architecture) if backend == "cuda" else architecture, warp_size)
options = {name: to_tuples(value)
           for given in ("launch", "options") for name, value in request.get(given, {}).items()}

if f"triton=={triton.__version__}" != expected["toolchain"]:
    print(f"warning: this is Triton {triton.__version__}, it was {expected['toolchain']}", file=sys.stderr)
try:
    compiled = triton.compile(f"kernel.{request['kind']}", target=target, options=options)
except Exception as error:
    print(f"it does not compile: {error}")
    sys.exit(0 if "failure" in expected else 1)
if "stages" not in expected:
    print("it compiles")
    sys.exit(1)
same = True
for stage, digest in expected["stages"].items():
    content = compiled.asm[stage]
    content = content if isinstance(content, bytes) else str(content).encode()
    equal = hashlib.sha256(content).hexdigest() == digest
    print(f"{stage}: {len(content)} bytes, {'as stored' if equal else 'NOT as stored'}")
    same = equal  # the last one, which is the final binary, decides
sys.exit(0 if same else 1)
)script";

// "kernel.ttir"; "" for a kind that this version does not know.
std::string SourceFileName(const std::string& kind) {
  static const std::map<std::string, std::string> kNames = {{"ttir", "kernel.ttir"},
                                                            {"ttgir", "kernel.ttgir"},
                                                            {"cuda", "kernel.cu"},
                                                            {"ptx", "kernel.ptx"}};
  const auto found = kNames.find(kind);
  return found == kNames.end() ? "" : found->second;
}

struct Parts {
  Json request;
  std::string toolchain;
  std::string fingerprint;
  std::string kind;
  std::string source;
};

bool Take(const Json& object, const char* name, std::string& out) {
  if (!object.is_object() || !object.contains(name) || !object.at(name).is_string()) return false;
  out = object.at(name).get<std::string>();
  return true;
}

absl::StatusOr<Parts> TakeApart(const std::string& document) {
  KILN_ASSIGN_OR_RETURN(const Json json, ParseJson(document));
  Parts parts;
  const bool is_whole = Take(json, "toolchain", parts.toolchain) &&
                        Take(json, "fingerprint", parts.fingerprint) && json.contains("request") &&
                        Take(json.at("request"), "kind", parts.kind) &&
                        Take(json.at("request"), "source", parts.source);
  if (!is_whole) return Internal("the daemon's answer is no request");
  parts.request = json.at("request");
  return parts;
}

Json Expected(const admin::v1::GetRequestResponse& found, const Parts& parts) {
  Json json = {{"key", Hex(found.key())},
               {"toolchain", parts.toolchain},
               {"fingerprint", parts.fingerprint}};
  for (const v1::StageBlob& stage : found.stages()) {
    json["stages"][stage.stage()] = Hex(stage.digest());
  }
  if (found.has_diagnostics()) json["failure"] = ToJson(found.diagnostics());
  if (!found.crash().empty()) json["failure"]["crash"] = found.crash();
  return json;
}

}  // namespace

absl::StatusOr<bool> WriteReproducer(const admin::v1::GetRequestResponse& found,
                                     const std::string& directory) {
  KILN_ASSIGN_OR_RETURN(const Parts parts, TakeApart(found.request()));
  const std::string source_file = SourceFileName(parts.kind);
  if (source_file.empty()) return Internal("this kiln knows no source of kind {}", parts.kind);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return ErrnoStatus(error.value(), "cannot make " + directory);
  const auto write = [&directory](const std::string& name, std::string_view content) {
    return WriteFileAtomically(directory + "/" + name, content);
  };
  KILN_RETURN_IF_ERROR(write(source_file, parts.source));
  KILN_RETURN_IF_ERROR(write("request.jsonl", Dump(parts.request) + "\n"));
  KILN_RETURN_IF_ERROR(write("expected.json", DumpPretty(Expected(found, parts)) + "\n"));
  if (parts.kind != "ttir" && parts.kind != "ttgir") return false;
  KILN_RETURN_IF_ERROR(write("reproduce.py", kTritonScript));
  const std::string script = directory + "/reproduce.py";
  if (::chmod(script.c_str(), 0755) != 0) return ErrnoStatus(errno, script);
  return true;
}

}  // namespace kiln::cli
