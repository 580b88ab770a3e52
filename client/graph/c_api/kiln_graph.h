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

#include "kiln_graph_segment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kiln_launch.h has them. */
struct kiln_launch_runtime;
struct kiln_launch_artifact;
struct kiln_launch_kernel;

typedef struct kiln_graph_plan kiln_graph_plan;
typedef struct kiln_graph_bound kiln_graph_bound;

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
  uint32_t no_splits;            /* not 0: one kernel for the whole range of every symbol */
  uint32_t takes_views;          /* not 0: kiln_graph_plan_get_view tells outputs that are views */
  const char* barriers; /* "always": small sections become one kernel with grid barriers; "never";
                           "score", NULL: where that is faster */
  /* Not NULL: is called with a line, without its end, for each choice of a compiler: by
   * kiln_graph_plan_open and kiln_graph_plan_use_next_compiler, on their thread. It throws nothing,
   * and calls no function of the plan. */
  void (*log)(void* log_data, const char* line);
  void* log_data;
} kiln_graph_plan_options;

/* INVALID_ARGUMENT: the segment or an option, by name. UNIMPLEMENTED: the forced compiler cannot
 * write a kernel. An operation that nothing lowers is no error: its step is the engine's. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plan_open(const kiln_graph_segment* segment,
                                                    const kiln_graph_plan_options* options,
                                                    kiln_graph_plan** plan);
KILN_GRAPH_API void kiln_graph_plan_close(kiln_graph_plan* plan);

/* The same for several targets at once: plans[i] is for targets[i]. What they have in common is
 * planned once. A target that none of the compilers makes code for has no plan: plans[i] is NULL,
 * and refusals[i] says why; others have "" there. `refusals` may be NULL; its texts live until the
 * thread's next call of this function. options->target is NULL. INVALID_ARGUMENT: as above; a
 * target that is none, or is named twice; no target has a plan, with the reason for each. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plans_open(const kiln_graph_segment* segment,
                                                     const kiln_graph_plan_options* options,
                                                     const char* const* targets,
                                                     uint32_t target_count, kiln_graph_plan** plans,
                                                     const char** refusals);
/* Which of the plans kiln_graph_bind is to have for a device. NOT_FOUND: none is for it; the
 * message names the device, its target and the plans' targets. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plans_find(kiln_graph_plan* const* plans,
                                                     uint32_t plan_count,
                                                     struct kiln_launch_runtime* runtime,
                                                     int32_t device, uint32_t* number);
/* kiln_graph_plan_write_manifest for all of them, in one file. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plans_write_manifest(kiln_graph_plan* const* plans,
                                                               uint32_t plan_count,
                                                               const char* path);

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
  uint32_t views;
  uint32_t reserved;
} kiln_graph_plan_info;

KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_info(kiln_graph_plan* plan,
                                                        kiln_graph_plan_info* info);

typedef struct kiln_graph_step {
  uint32_t size;
  uint32_t is_engines;   /* not 0: an operation that the engine computes; else kernels */
  int32_t operation;     /* the engine's; or the root of the (last) section */
  uint32_t first_kernel; /* these are launched one after the other, or variants in their place */
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
  int32_t step;     /* -1: it need not be compiled: no step launches it any more */
  const char* why;  /* this compiler */
  /* Not "": a variant, for a part of the symbols' ranges: "batch up to 256: smaller tiles". At
   * other sizes, and where it has not been set, the next kernel that is none does its work. */
  const char* split;
} kiln_graph_kernel;

KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_kernel(kiln_graph_plan* plan, uint32_t number,
                                                          kiln_graph_kernel* kernel);

/* Writes the requests of the kernels to a file, which `kiln warm` takes: one JSON object a
 * line. Errors name the file. */
KILN_GRAPH_API kiln_graph_code kiln_graph_plan_write_manifest(kiln_graph_plan* plan,
                                                              const char* path);

/* Writes a kernel for the next compiler, after a compile that failed for the reason `why`.
 * NOT_FOUND: there is none. A variant is not needed any more then. The operations of another kernel
 * are the engine's, a step for each. A kernel with grid barriers becomes one for each section,
 * behind the others. Read count of kernels, steps and buffers anew. Kernels keep their numbers. */
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

/* An output that no kernel writes: it is elements of the memory of `base`, which is a value that
 * the engine has: an input, a constant, an output, or one of the buffers, which is external then.
 */
typedef struct kiln_graph_view {
  uint32_t size;
  int32_t value;
  int32_t base;
  uint32_t rank;
  const char* offset; /* in elements of `base`, like a size of a shape: "64", "4*batch + 1" */
  const char* const* strides; /* likewise, `rank` of them */
} kiln_graph_view;

KILN_GRAPH_API kiln_graph_code kiln_graph_plan_get_view(kiln_graph_plan* plan, uint32_t number,
                                                        kiln_graph_view* view);

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
/* Loads all kernels. FAILED_PRECONDITION: one that is no variant has not been set. Goes on behind a
 * kernel that cannot be loaded, and ends with the first one's error. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_prepare(kiln_graph_bound* bound);
/* The kernels that set_response, set_artifact or prepare failed for, where another compiler's may
 * do: the device has too little for it, or does not take the code. Give each to
 * kiln_graph_plan_use_next_compiler, have it compiled, and bind the plan anew. `number` counts them
 * from 0. NOT_FOUND: there are no more. `why` lives until the next call for the bound plan. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_get_load_failure(kiln_graph_bound* bound,
                                                                 uint32_t number, uint32_t* kernel,
                                                                 const char** why);
/* A line for each kernel with grid barriers of a prepared plan: one launch, or several where the
 * device cannot have all blocks resident, and why. Lives as long as the bound plan. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_get_explanation(const kiln_graph_bound* bound,
                                                                const char** text);

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
  uint64_t workspace; /* a multiple of 16. The same for all steps, which keep values in it. Two
                         executions at once need two: with one, grid barriers hang the GPU */
  uint64_t workspace_bytes;
  void* stream;          /* as in kiln_launch_config */
  uint64_t kernels_mark; /* for kiln_graph_check_replay: kiln_graph_bound_get_kernels_mark when it
                            was captured; 0: kernels are not compared */
} kiln_graph_execution;

/* Puts launches on the stream and returns. Ends before an operation of the engine's: `next_step` is
 * that step, or the one after the last. Allocates no memory; can be captured. Checks everything
 * before the first launch. INVALID_ARGUMENT: a symbol outside of its range; a buffer that is null,
 * misaligned, or written and overlapped by another; a workspace that is missing or too small.
 * FAILED_PRECONDITION: a kernel has not been set. Errors of kiln_launch_enqueue. */
KILN_GRAPH_API kiln_graph_code kiln_graph_execute(const kiln_graph_bound* bound,
                                                  const kiln_graph_execution* execution,
                                                  uint32_t* next_step);

/* A number for the kernels that are set now. Another bound plan has other numbers, and so has this
 * one once another artifact is set. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_get_kernels_mark(const kiln_graph_bound* bound,
                                                                 uint64_t* mark);

/* Before a graph is replayed that captured `captured`, in place of executing `wanted`: a graph has
 * its addresses, sizes and kernels for good, so keep the arrays of what was captured.
 * INVALID_ARGUMENT: the name of the first symbol, or buffer of a captured step, that is another
 * one; another workspace where a captured step has a buffer in it; a step that only one of both
 * launches, up to the first of the engine's behind the captured ones; with `kernels_mark`, a kernel
 * of a captured step that was set later or in another bound plan. Streams do not count. */
KILN_GRAPH_API kiln_graph_code kiln_graph_check_replay(const kiln_graph_bound* bound,
                                                       const kiln_graph_execution* captured,
                                                       const kiln_graph_execution* wanted);

/* --- Observed shapes -------------------------------------------------------------------------- */

/* Counts from now on the sizes that executions ask for, also those that are refused. Takes a lock
 * at each execution. To be called like kiln_graph_bound_prepare. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_observe(kiln_graph_bound* bound);

enum { KILN_GRAPH_OBSERVED_SIZES = 32 };

/* What was asked for of one symbol. */
typedef struct kiln_graph_observed {
  uint32_t size;
  uint32_t size_count;
  uint64_t executions;
  kiln_graph_symbol range; /* the smallest that holds them; the segment's where there are none */
  /* The most frequent sizes; counts are estimates where there are more than these. */
  int64_t sizes[KILN_GRAPH_OBSERVED_SIZES];
  uint64_t counts[KILN_GRAPH_OBSERVED_SIZES];
} kiln_graph_observed;

/* FAILED_PRECONDITION: kiln_graph_bound_observe was not called. The name in `range` lives as long
 * as the bound plan. */
KILN_GRAPH_API kiln_graph_code kiln_graph_bound_get_observed(const kiln_graph_bound* bound,
                                                             uint32_t symbol,
                                                             kiln_graph_observed* observed);

/* Gives the segment's symbols the observed ranges: kiln_graph_segment_get_json writes them, and a
 * new plan is made for them. INVALID_ARGUMENT: it has other symbols than the plan's segment. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_set_ranges(kiln_graph_segment* segment,
                                                             const kiln_graph_bound* bound);

#ifdef __cplusplus
}
#endif

#endif /* KILN_GRAPH_H_ */
