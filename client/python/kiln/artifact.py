"""What comes back: the fields of kiln.v1's messages as plain Python objects."""

from dataclasses import dataclass, replace
from typing import Any, Mapping, Optional, Tuple

BINARIES = ("cubin", "hsaco", "ltoir", "spv")


@dataclass(frozen=True)
class KernelParameter:
    """One that a launcher passes: type as Triton, the IR or PTX spells it; "" for a name that is not known."""
    name: str
    type: str


@dataclass(frozen=True)
class TensorDescriptor:
    """The layout of one tensor descriptor, from which a launcher encodes a CUtensorMap. elem_size is in bytes,
    block_size in elements per dimension."""
    swizzle: int
    elem_size: int
    elem_type: int
    block_size: Tuple[int, ...]
    fp4_padded: bool


@dataclass(frozen=True)
class KernelMetadata:
    """What a launcher must know. Sizes in bytes where their name says so.

    num_warps is that after compilation (0: PTX or CUDA C++ that does not say). registers and spill_bytes are per
    thread, None where the compiler does not say. hidden_pointers are appended after the parameters, always.
    toolchain_metadata is the toolchain's own, as JSON.
    """
    name: str
    backend: str
    architecture: str
    shared_bytes: int
    num_warps: int
    num_ctas: int
    warp_size: int
    global_scratch_bytes: int
    global_scratch_align: int
    profile_scratch_bytes: int
    profile_scratch_align: int
    tensor_memory_columns: int
    cluster_dims: Tuple[int, ...]
    launch_pdl: bool
    launch_cooperative_grid: bool
    registers: Optional[int]
    spill_bytes: Optional[int]
    tensor_descriptors: Tuple[TensorDescriptor, ...]
    parameters: Tuple[KernelParameter, ...]
    hidden_pointers: int
    toolchain_metadata: str


@dataclass(frozen=True)
class Provenance:
    """Where an artifact comes from. fingerprint: 64 hex digits; compiled_at: seconds since 1970; compile_seconds: what
    a miss costs, in the worker."""
    toolchain: str
    fingerprint: str
    assembler: str
    kiln_version: str
    host: str
    compiled_at: float
    compile_seconds: float


@dataclass(frozen=True)
class Stage:
    """One stage's output. digest: SHA-256, 64 hex digits. content: None where it was not asked for."""
    name: str
    digest: str
    size_bytes: int
    content: Optional[bytes]


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel.

    key: 64 hex digits. outcome: "hit", "joined" (somebody else's compile was under way), "compiled"; "stored" in the
    answer to a look-up. missed_after_warm: it was compiled for this request, though a warm for its job got kernels before. tier: where a hit was found ("hot": the hot directory, "memory", "disk"), otherwise "". stages: by name, in
    the order in which they were asked for. timings: seconds of each stage of the compile that made it.
    """
    key: str
    outcome: str
    tier: str
    metadata: KernelMetadata
    stages: Mapping[str, Stage]
    timings: Mapping[str, float]
    provenance: Provenance
    missed_after_warm: bool = False

    def content(self, stage: str) -> bytes:
        """That stage's bytes. KeyError where they were not asked for."""
        found = self.stages[stage].content
        if found is None:
            raise KeyError(stage)
        return found

    def with_contents(self, contents: Mapping[str, bytes]) -> "Artifact":
        """The same with these stages' contents filled in."""
        stages = {name: replace(stage, content=contents.get(name, stage.content)) for name, stage in self.stages.items()}
        return replace(self, stages=stages)

    @property
    def binary(self) -> bytes:
        """The final binary: cubin, HSACO, LTO-IR or SPIR-V. KeyError where it was not asked for."""
        for stage in BINARIES:
            if stage in self.stages:
                return self.content(stage)
        raise KeyError("the final binary was not asked for")


@dataclass(frozen=True)
class ArtifactOutput:
    """A stage's output of a stored artifact, in the place of a file's content (Client.put_own): key and digest are 64 hex
    digits each."""
    key: str
    stage: str
    digest: str


@dataclass(frozen=True)
class Difference:
    """One thing that decides the bytes and is not the same: "num_warps", "target", "toolchain", "ptxas", "source", ... The values
    are for people: of a text they are digest and length; "default" is what a request does not say."""
    field: str
    asked: str
    stored: str

    def __str__(self) -> str:
        return f"{self.field}: asked {self.asked}, stored {self.stored}"


@dataclass(frozen=True)
class NearestArtifact:
    """A stored artifact of a kernel of the same name that differs in the fewest things from what was asked for.

    key: 64 hex digits. target: as in CompileRequest. created_at: seconds since 1970. has_seen_all: nothing nearer is stored;
    otherwise a limit ended the search.
    """
    key: str
    toolchain: str
    target: str
    created_at: float
    differences: Tuple[Difference, ...]
    has_seen_all: bool

    def __str__(self) -> str:
        return f"{self.key[:12]} ({'; '.join(map(str, self.differences)) or 'the same'})"


@dataclass(frozen=True)
class OptionDeclaration:
    """An option that a backend knows. type: "bool", "integer", "number", "string", "tuple" or "any". default: None
    where there is none or it depends on the target."""
    name: str
    type: str
    default: Any


@dataclass(frozen=True)
class Backend:
    """One backend of a toolchain; the last of its stages is the final binary."""
    backend: str
    architectures: Tuple[str, ...]
    stages: Tuple[str, ...]
    options: Tuple[OptionDeclaration, ...]


@dataclass(frozen=True)
class Toolchain:
    """One exact compiler installation. fingerprint: 64 hex digits. kinds: as in CompileRequest."""
    name: str
    version: str
    fingerprint: str
    assembler: str
    kinds: Tuple[str, ...]
    backends: Tuple[Backend, ...]
    is_default: bool
