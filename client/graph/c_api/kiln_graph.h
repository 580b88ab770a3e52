/* clang-format off: it would fill the lines of the example and of the rules. */
/* libkiln_graph: makes few kernels of many operations, for engines that have no kernel author.
 *
 * For C, C++ and whatever can call C. Speaks to no daemon: the texts of a plan's kernels go to the
 * daemon by any client of it (in C++ <kiln/graph.h> does that), its answers come back here.
 * docs/graph.md has the concepts, and the JSON of segments.
 *
 *   kiln_graph_segment* segment;
 *   kiln_graph_plan* plan;
 *   kiln_graph_bound* bound;
 *   kiln_graph_segment_open_json(json, json_bytes, &segment);
 *   kiln_graph_plan_options options = {.size = sizeof options, .target = "cuda:90"};
 *   kiln_graph_plan_open(segment, &options, &plan);
 *   ... kiln_graph_plan_get_kernel: have each text compiled ...
 *   kiln_graph_bind(plan, runtime, 0, &bound);
 *   ... kiln_graph_bound_set_response for each kernel ...
 *   kiln_graph_bound_prepare(bound);
 *   kiln_graph_execution execution = {.size = sizeof execution, .buffers = addresses, ...};
 *   for (uint32_t step = 0; step < info.steps; ++step) {
 *     execution.first_step = step;
 *     kiln_graph_execute(bound, &execution, &step);
 *     ... the engine computes step number `step`, unless that is info.steps ...
 *   }
 *
 * RULES
 * Errors: functions that can fail return a kiln_graph_code, 0 for success. kiln_graph_error()
 *   describes the last call that failed on the calling thread. A failed call does not change its
 *   out parameters.
 * Threads: a segment or a plan is used by one thread at a time. A bound plan is set and prepared by
 *   one thread; then any number of threads may execute it at once, and read from it.
 * Ownership: close what *_open and kiln_graph_bind return with the matching *_close, which takes
 *   NULL too. A plan keeps a copy of its segment, a bound plan what it needs of its plan: they may
 *   be closed in any order. The library keeps no pointer that it was passed after the call returns.
 * Structs: set `size` to sizeof the struct. Later versions add members at the end. The library
 *   accepts the shorter structs of older programs, and ignores unknown members of longer ones. Zero
 *   is the default of every member.
 * Numbers: values, operations and symbols count from 0 in the order in which they are added;
 *   kernels, steps and buffers from 0 in the order of the plan.
 * Units: sizes are bytes where the name says so, all else is a count. Strides count elements.
 */
/* clang-format on */
#ifndef KILN_GRAPH_H_
#define KILN_GRAPH_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_GRAPH_API __attribute__((visibility("default")))
#else
#define KILN_GRAPH_API
#endif

/* kiln_launch.h has them. */
struct kiln_launch_runtime;
struct kiln_launch_artifact;
struct kiln_launch_kernel;

/* The numbers of gRPC's and Abseil's status codes, as kiln_launch.h has them. */
typedef int32_t kiln_graph_code;
enum {
  KILN_GRAPH_OK = 0,
  KILN_GRAPH_INVALID_ARGUMENT = 3,    /* the call is wrong; the message names what */
  KILN_GRAPH_NOT_FOUND = 5,           /* there is no other compiler */
  KILN_GRAPH_RESOURCE_EXHAUSTED = 8,  /* a limit, or no memory */
  KILN_GRAPH_FAILED_PRECONDITION = 9, /* a kernel without an artifact, another architecture, ... */
  KILN_GRAPH_UNIMPLEMENTED = 12,      /* the forced compiler cannot write a kernel */
  KILN_GRAPH_INTERNAL = 13,
  KILN_GRAPH_UNAVAILABLE = 14,
  KILN_GRAPH_DATA_LOSS = 15 /* bytes do not match their digest */
};

typedef struct kiln_graph_segment kiln_graph_segment;
typedef struct kiln_graph_plan kiln_graph_plan;
typedef struct kiln_graph_bound kiln_graph_bound;

/* "0.1.0". Static. */
KILN_GRAPH_API const char* kiln_graph_version(void);

/* Describes the last call that failed on this thread. Empty before the first failure, and when the
 * process had no memory for the text. Valid until the next failed call on this thread. */
KILN_GRAPH_API const char* kiln_graph_error(void);

/* --- Segments: what an engine hands over ------------------------------------------------------ */

/* An empty one, to be filled by the calls below. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_open(const char* name,
                                                       kiln_graph_segment** segment);
/* INVALID_ARGUMENT names the field that is wrong. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_open_json(const char* json, uint64_t json_bytes,
                                                            kiln_graph_segment** segment);
KILN_GRAPH_API void kiln_graph_segment_close(kiln_graph_segment* segment);

/* A dimension that differs from launch to launch. */
typedef struct kiln_graph_symbol {
  uint32_t size;
  uint32_t reserved;
  const char* name; /* letters, digits and _ */
  int64_t min;
  int64_t max;         /* at least 1 */
  int64_t typical;     /* 0: max */
  int64_t multiple_of; /* 0: 1 */
} kiln_graph_symbol;

/* The main graph of an ONNX model. `dimensions`: ranges of the dimensions that it leaves open, by
 * its names for them; all others are 1 to 4096. What Kiln does not know is the engine's in every
 * plan. INVALID_ARGUMENT names the file, and the tensor or the node that is wrong. */
KILN_GRAPH_API kiln_graph_code
kiln_graph_segment_open_onnx(const char* path, const kiln_graph_symbol* const* dimensions,
                             uint32_t dimension_count, kiln_graph_segment** segment);

/* `number` may be NULL. Symbols come before the values that use them. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_add_symbol(kiln_graph_segment* segment,
                                                             const kiln_graph_symbol* symbol,
                                                             int32_t* number);

enum { /* roles; 0: a value in between, which may never be in memory */
       KILN_GRAPH_INPUT = 1,
       KILN_GRAPH_OUTPUT = 2,
       KILN_GRAPH_CONSTANT = 4 /* an input whose elements never change */
};

/* A tensor. */
typedef struct kiln_graph_value {
  uint32_t size;
  uint32_t role;
  const char* name; /* unique within the segment */
  const char* type; /* "f16", "float16", "i64": docs/graph.md. NULL: not known; operations that
              the engine keeps alone may touch the value */
  const char* const* shape;   /* `rank` sizes: "64", "batch", "4*batch + 1" */
  const char* const* strides; /* likewise; NULL: row-major */
  const void* bytes;          /* of a constant, little endian and row-major; NULL: not told */
  uint64_t bytes_count;
  uint32_t rank;
  uint32_t reserved;
} kiln_graph_value;

KILN_GRAPH_API kiln_graph_code kiln_graph_segment_add_value(kiln_graph_segment* segment,
                                                            const kiln_graph_value* value,
                                                            int32_t* number);

enum {
  KILN_GRAPH_OMITTED = -1, /* an optional input or output that is left out */
  KILN_GRAPH_NEW = -2      /* an output: a new value, whose type and shape are inferred */
};

typedef struct kiln_graph_operation {
  uint32_t size;
  uint32_t input_count;
  const char* name;      /* of the operator, or an alias: "Add", "aten::add" */
  const int32_t* inputs; /* values */
  int32_t* outputs;      /* values, OMITTED or NEW; becomes their numbers */
  uint32_t output_count;
  uint32_t reserved;
  const char* attributes; /* a JSON object as in docs/graph.md; NULL: none */
  /* A reason: the engine keeps the operation, whatever Kiln could do; its name may be any. A NEW
   * value of it has no type. NULL: Kiln may plan it. */
  const char* kept_because;
} kiln_graph_operation;

/* A NEW value has the name "v" and its number, and no role. INVALID_ARGUMENT: no such operator, a
 * wrong number of inputs, attributes that it does not have; what is to be inferred cannot be. The
 * rest is checked when the segment is planned. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_add_operation(
    kiln_graph_segment* segment, const kiln_graph_operation* operation);

/* `name` NULL: keeps its name. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_set_role(kiln_graph_segment* segment,
                                                           int32_t value, uint32_t role,
                                                           const char* name);

typedef struct kiln_graph_segment_info {
  uint32_t size;
  uint32_t symbols;
  uint32_t values;
  uint32_t operations;
  const char* name;
} kiln_graph_segment_info;

/* What these three give lives until the next call on the segment. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_get_info(kiln_graph_segment* segment,
                                                           kiln_graph_segment_info* info);
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_get_value(kiln_graph_segment* segment,
                                                            int32_t number,
                                                            kiln_graph_value* value);
/* `json_bytes` may be NULL. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_get_json(kiln_graph_segment* segment,
                                                           const char** json, uint64_t* json_bytes);

/* --- Plans: a segment for one target ---------------------------------------------------------- */

typedef struct kiln_graph_plan_options {
  uint32_t size;
  uint32_t fast_math;    /* not 0: approximations of the hardware where they are faster */
  const char* target;    /* "cuda:90", "hip:gfx942", "spirv:1.2" */
  const char* compilers; /* "ptx,cuda,triton,opencl": those there are; NULL: all that make code for
                            the target */
  const char* forced;    /* this one for every kernel; NULL: the best for each */
  const char* off;       /* types of sections that the engine keeps: "attention,matmul" */
  uint32_t keeps_small_sections; /* not 0: kernels that are not worth a launch, too */
  uint32_t no_fusion;            /* not 0: a kernel for each operation */
} kiln_graph_plan_options;

/* INVALID_ARGUMENT: the segment or an option, by name. UNIMPLEMENTED: the forced compiler cannot
 * write a kernel. An operation that nothing lowers is no error: its step is the engine's. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plan_open(const kiln_graph_segment* segment,
                                                    const kiln_graph_plan_options* options,
                                                    kiln_graph_plan** plan);
KILN_GRAPH_API void kiln_graph_plan_close(kiln_graph_plan* plan);

/* What these functions give lives until the plan is closed or kiln_graph_plan_use_next_compiler. */

/* What was fused, what not, and why; which compiler each kernel has, and why. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_explanation(kiln_graph_plan* plan,
                                                               const char** text);
/* 64 hex digits over all that decides the code: operators, types, ranges, layout, options. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_key(kiln_graph_plan* plan, const char** key);

typedef struct kiln_graph_plan_info {
  uint32_t size;
  uint32_t steps;
  uint32_t kernels;
  uint32_t buffers;
} kiln_graph_plan_info;

KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_info(kiln_graph_plan* plan,
                                                        kiln_graph_plan_info* info);

typedef struct kiln_graph_step {
  uint32_t size;
  uint32_t is_engines;   /* not 0: an operation that the engine computes; else kernels */
  int32_t operation;     /* the engine's; or the section's root */
  uint32_t first_kernel; /* these are launched one after the other */
  uint32_t kernel_count;
  uint32_t reserved;
  const char* reason; /* why it is the engine's, or "" */
} kiln_graph_step;

KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_step(kiln_graph_plan* plan, uint32_t number,
                                                        kiln_graph_step* step);

/* What the daemon is to compile. */
typedef struct kiln_graph_kernel {
  uint32_t size;
  uint32_t num_warps; /* of Triton IR, to be said in the request; 0: not Triton IR */
  const char* kind;   /* "ttir", "cuda", "ptx", "opencl" */
  const char* target; /* as in the options */
  const char* entry;  /* the kernel's name */
  const char* text;
  uint64_t text_bytes;
  uint32_t threads; /* of a block */
  int32_t step;     /* -1: its operations have become the engine's; it need not be compiled */
  const char* why;  /* this compiler */
} kiln_graph_kernel;

KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_kernel(kiln_graph_plan* plan, uint32_t number,
                                                          kiln_graph_kernel* kernel);

/* Writes a kernel for the next compiler, after a compile that failed for the reason `why`.
 * NOT_FOUND: there is none. The kernel's operations are the engine's then, a step for each: read
 * steps and buffers anew. Kernels keep their numbers. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plan_use_next_compiler(kiln_graph_plan* plan,
                                                                 uint32_t kernel, const char* why);

/* A value that is in memory. */
typedef struct kiln_graph_buffer {
  uint32_t size;
  int32_t value;
  uint32_t role;
  uint32_t is_external; /* not 0: the engine gives its address; else it lies in the workspace */
  uint32_t is_written;  /* not 0: by a kernel */
  uint32_t alignment;   /* that its address must have, in bytes */
  const char* name;
  const char* type;
} kiln_graph_buffer;

KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_buffer(kiln_graph_plan* plan, uint32_t number,
                                                          kiln_graph_buffer* buffer);

/* --- Bound plans: a plan on a device ---------------------------------------------------------- */

/* `device` -1: the thread's current context, as kiln_launch_kernel_open has it. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bind(kiln_graph_plan* plan,
                                               struct kiln_launch_runtime* runtime, int32_t device,
                                               kiln_graph_bound** bound);
KILN_GRAPH_API void kiln_graph_bound_close(kiln_graph_bound* bound);

/* What the daemon answered for a kernel: a serialized kiln.v1.CompileResponse; or any artifact.
 * Errors of kiln_launch_kernel_open, and FAILED_PRECONDITION: the kernel's step is -1. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_set_response(kiln_graph_bound* bound,
                                                             uint32_t kernel, const void* response,
                                                             uint64_t response_bytes);
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_set_artifact(kiln_graph_bound* bound,
                                                             uint32_t kernel,
                                                             struct kiln_launch_artifact* artifact);
/* Loads all kernels. FAILED_PRECONDITION: one of them has not been set. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_prepare(kiln_graph_bound* bound);

/* A kernel that has been set, for kiln_launch_kernel_get_times and the like. It lives as long as
 * the bound plan, which closes it. FAILED_PRECONDITION: it has not been set. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_get_kernel(const kiln_graph_bound* bound,
                                                           uint32_t number,
                                                           struct kiln_launch_kernel** kernel);

/* `symbols`: a size for each of the segment's symbols. INVALID_ARGUMENT: one is outside of its
 * range; the message has both. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_get_workspace(const kiln_graph_bound* bound,
                                                              const int64_t* symbols,
                                                              uint32_t symbol_count,
                                                              uint64_t* bytes);
/* From a buffer's first element to its last, strides and all. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_get_buffer_bytes(const kiln_graph_bound* bound,
                                                                 uint32_t buffer,
                                                                 const int64_t* symbols,
                                                                 uint32_t symbol_count,
                                                                 uint64_t* bytes);

typedef struct kiln_graph_execution {
  uint32_t size;
  uint32_t first_step;
  uint32_t step_count;     /* 0: all */
  uint32_t buffer_count;   /* the plan's */
  const uint64_t* buffers; /* an address for each; those in the workspace are not read */
  const int64_t* symbols;
  uint32_t symbol_count; /* the segment's */
  uint32_t reserved;
  uint64_t workspace; /* a multiple of 16. The same for all steps, which keep values in it */
  uint64_t workspace_bytes;
  void* stream; /* as in kiln_launch_config */
} kiln_graph_execution;

/* Puts launches on the stream and returns. Ends before an operation of the engine's: `next_step` is
 * that step, or the one after the last. Allocates no memory; can be captured. Checks everything
 * before the first launch. INVALID_ARGUMENT: a symbol outside of its range; a buffer that is null,
 * misaligned, or written and overlapped by another; a workspace that is missing or too small.
 * FAILED_PRECONDITION: a kernel has not been set. Errors of kiln_launch_enqueue. */
KILN_GRAPH_API kiln_graph_code kiln_graph_execute(const kiln_graph_bound* bound,
                                                  const kiln_graph_execution* execution,
                                                  uint32_t* next_step);

#ifdef __cplusplus
}
#endif

#endif /* KILN_GRAPH_H_ */
