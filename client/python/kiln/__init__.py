"""Kiln's Python client: asks kilnd for compiled GPU kernels.

    client = kiln.Client()                      # kiln.UnavailableError: no daemon here, and nothing published
    artifact = client.compile(kiln.CompileRequest(ttir, "cuda:90", options={"num_warps": 8}))
    cubin = artifact.binary
    kiln.load(artifact)[grid](x, y, n)          # on a GPU here: PyTorch's tensors, DLPack, addresses

Importing this package starts no thread, opens no connection, and does not import protobuf:
Client does, when it is first used. docs/python.md in Kiln's source is the guide.
"""

from typing import TYPE_CHECKING, Any

from kiln import _process
from kiln._version import __version__
from kiln.errors import (CacheMissError, CallCancelledError, CompilationError, DataLossError, DeadlineExceededError,
                         DiagnosticNote, Diagnostics, FailedPreconditionError, InternalError,
                         InvalidArgumentError, KilnError, LaunchError, NotFoundError, PermissionDeniedError, ResourceExhaustedError,
                         UnavailableError)

if TYPE_CHECKING:
    from kiln.aio import AsyncClient
    from kiln.artifact import (Artifact, ArtifactOutput, Backend, Difference, KernelMetadata, KernelParameter,
                               NearestArtifact, OptionDeclaration, Provenance, Stage, TensorDescriptor, Toolchain)
    from kiln.client import Client
    from kiln.key import Parameter, canonical_encoding, compile_key
    from kiln.launch import DescriptorArgument, Kernel, KernelFacts, KernelTimes, LaunchStats, Runtime, load, runtime
    from kiln._report import Report, report
    from kiln.request import CompileRequest

# Imported when they are first asked for: the plug-in needs none of them to wait for a kernel.
_PLACES = {
    "kiln.aio": ("AsyncClient",),
    "kiln.artifact": ("Artifact", "ArtifactOutput", "Backend", "Difference", "KernelMetadata", "KernelParameter",
                      "NearestArtifact", "OptionDeclaration", "Provenance", "Stage", "TensorDescriptor", "Toolchain"),
    "kiln.client": ("Client",),
    "kiln.key": ("Parameter", "canonical_encoding", "compile_key"),
    "kiln.launch": ("DescriptorArgument", "Kernel", "KernelFacts", "KernelTimes", "LaunchStats", "Runtime", "load", "runtime"),
    "kiln._report": ("Report", "report"),
    "kiln.request": ("CompileRequest",),
}
_PLACE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Artifact", "ArtifactOutput", "AsyncClient", "Backend", "CacheMissError", "CallCancelledError", "Client",
    "CompilationError", "CompileRequest", "DataLossError", "DeadlineExceededError", "DescriptorArgument", "DiagnosticNote", "Diagnostics",
    "Difference", "FailedPreconditionError", "InternalError", "InvalidArgumentError", "Kernel", "KernelFacts",
    "KernelMetadata", "KernelParameter", "KernelTimes", "KilnError", "LaunchError", "LaunchStats", "NearestArtifact",
    "NotFoundError", "OptionDeclaration", "Parameter", "PermissionDeniedError", "Provenance", "Report", "ResourceExhaustedError", "Runtime", "Stage",
    "TensorDescriptor", "Toolchain", "UnavailableError", "__version__", "canonical_encoding", "compile_key", "load",
    "report", "runtime"
]


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'kiln' has no attribute {name!r}")
    value = getattr(_process.imported(_PLACE_OF[name]), name)
    globals()[name] = value
    return value
