/* clang-format off: it would fill the lines of the example and of the rules. */
/* libkiln_launch: loads kernels that Kiln compiled and puts them on a GPU's streams.
 *
 * For C, C++ and whatever can call C (Python's ctypes among them). Needs no CUDA toolkit: the
 * driver is opened at run time. Speaks to no daemon: kernels come from files of the hot directory,
 * from what `kiln compile -o` writes, or from bytes that libkiln returned.
 *
 *   kiln_launch_runtime* runtime;
 *   kiln_launch_artifact* artifact;
 *   kiln_launch_kernel* kernel;
 *   kiln_launch_open(NULL, &runtime);
 *   kiln_launch_artifact_open_json("softmax.json", &artifact);
 *   kiln_launch_kernel_open(runtime, artifact, 0, &kernel);  // of device 0
 *   kiln_launch_prepare(kernel);  // in warm-up: loads wait for the GPU
 *   kiln_launch_config config = {.size = sizeof config, .grid = {64, 1, 1}, .stream = stream};
 *   const void* arguments[] = {&out, &in, &stride_in, &stride_out, &rows, &columns};
 *   kiln_launch_enqueue(kernel, &config, arguments, 6);
 *
 * RULES
 * Errors: functions that can fail return a kiln_launch_code, 0 for success. What went wrong, in
 *   words that name the kernel, its key and the driver's error, kiln_launch_error() says, for the
 *   last call that failed on the calling thread. A failed call leaves its out parameters alone.
 * Threads: every function may be called from any thread at any time, on the same objects too; but
 *   an object must not be used while, or after, it is closed.
 * Ownership: what *_open gives is closed with the matching *_close, which takes NULL too. An
 *   artifact may be closed while kernels of it are open, and everything while launches run.
 *   Pointers passed in are not kept after the call returns.
 * Structs: set `size` to sizeof the struct. Later versions add members at the end; a library takes
 *   shorter structs of older programs, and reads no more of a longer one than it knows. Zero is the
 *   default of every member.
 * Handles of the driver: `stream` is a CUstream (cudaStream_t is the same), NULL the default
 *   stream. Device addresses are uint64_t.
 * Units are in the names; otherwise counts. Sizes are bytes.
 * Fork: after a fork nothing of this library works in the child, as nothing of the driver does.
 * Unloading: dlclose is allowed at any time and leaves the library where it is, since the driver
 *   calls into it when a captured graph ends.
 */
/* clang-format on */
#ifndef KILN_LAUNCH_H_
#define KILN_LAUNCH_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_LAUNCH_API __attribute__((visibility("default")))
#else
#define KILN_LAUNCH_API
#endif

/* The numbers of gRPC's and Abseil's status codes. */
typedef int32_t kiln_launch_code;
enum {
  KILN_LAUNCH_OK = 0,
  KILN_LAUNCH_CANCELLED = 1,           /* the caller's own wish */
  KILN_LAUNCH_INVALID_ARGUMENT = 3,    /* the call is wrong, whatever the machine */
  KILN_LAUNCH_NOT_FOUND = 5,           /* no such file */
  KILN_LAUNCH_PERMISSION_DENIED = 7,   /* somebody else could have written the file */
  KILN_LAUNCH_RESOURCE_EXHAUSTED = 8,  /* more memory, threads or registers than there are */
  KILN_LAUNCH_FAILED_PRECONDITION = 9, /* another architecture, not prepared, under capture, ... */
  KILN_LAUNCH_UNIMPLEMENTED = 12,      /* this driver, or this library, does not know it */
  KILN_LAUNCH_INTERNAL = 13,           /* the driver failed otherwise */
  KILN_LAUNCH_UNAVAILABLE = 14,        /* no driver, or no GPU */
  KILN_LAUNCH_DATA_LOSS = 15           /* bytes are not what their digest says */
};

typedef struct kiln_launch_runtime kiln_launch_runtime;
typedef struct kiln_launch_artifact kiln_launch_artifact;
typedef struct kiln_launch_kernel kiln_launch_kernel;
typedef struct kiln_launch_descriptor kiln_launch_descriptor;

/* --- Errors, version ------------------------------------------------------------------------- */

/* "0.1.0". Static. */
KILN_LAUNCH_API const char* kiln_launch_version(void);

/* What the last call that failed on this thread has to say; empty before the first, and where the
 * process had no memory for words. Valid until the next call on this thread that fails. */
KILN_LAUNCH_API const char* kiln_launch_error(void);

/* What the GPU driver returned in that call (a CUresult, a hipError_t); 0: it was not the driver
 * that failed. */
KILN_LAUNCH_API int32_t kiln_launch_driver_result(void);

/* --- The runtime: one per driver library in a process ---------------------------------------- */

typedef struct kiln_launch_open_options {
  uint32_t size;
  uint32_t reserved;
  /* "cuda" (also NULL) or "hip". */
  const char* backend;
  /* The driver library, as dlopen(3) takes it. NULL: libcuda.so.1; libamdhip64.so, .so.7 or .so.6,
   * where the process has one loaded that one. */
  const char* driver_path;
} kiln_launch_open_options;

/* Opens the driver. A second open of the same driver gives the same runtime, so that everything in
 * a process shares what is loaded; each is closed once. `options` may be NULL. UNAVAILABLE: no
 * driver, no GPU, or a driver before CUDA 12.0 or ROCm 6.0. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_open(const kiln_launch_open_options* options,
                                                  kiln_launch_runtime** runtime);
/* What is open or captured stays as it is. */
KILN_LAUNCH_API void kiln_launch_close(kiln_launch_runtime* runtime);

/* One launch, for hooks. */
typedef struct kiln_launch_event {
  uint32_t size;
  kiln_launch_code code; /* how the launch ended; in `enter` 0 */
  const char* kernel;    /* the entry point's name */
  const uint8_t* key;    /* 32 bytes; zeroes: not known */
  void* stream;
  uint32_t grid[3];
} kiln_launch_event;

typedef void (*kiln_launch_hook)(void* user, const kiln_launch_event* event);

typedef struct kiln_launch_settings {
  uint32_t size;
  /* Not 0: a launch of a kernel that is not loaded fails (FAILED_PRECONDITION) rather than loads
   * it, since loading waits for what runs on the device. */
  uint32_t strict;
  /* Not 0: launches are measured, see kiln_launch_kernel_get_times. Two event records more per
   * launch. */
  uint32_t times_launches;
  uint32_t reserved;
  /* How many kernels, and bytes of binaries, stay loaded in each context, so on each GPU; 0: no
   * limit. The least recently launched of the context go first and are loaded again when they are
   * launched. Never below what one launch needs, and never one that a live graph launches. */
  uint64_t resident_kernels_max;
  uint64_t resident_bytes_max;
  /* Scratch memory of kernels that need it. NULL: the driver's stream-ordered memory. `allocate`
   * returns 0 where it has none; `release` comes once the launch is on the stream, so it must give
   * the memory back in stream order. Both are called on the launching thread. Neither is for a
   * launch that a stream captures: each replay of the graph uses the memory again, so it is always
   * the driver's, allocated and freed by nodes of the graph. */
  uint64_t (*scratch_allocate)(void* user, uint64_t bytes, uint64_t alignment, void* stream);
  void (*scratch_release)(void* user, uint64_t address, void* stream);
  void* scratch_user;
  /* Called before and after each launch, on the launching thread; also for one that fails, not for
   * one with an empty grid. They may launch. NULL: none. */
  kiln_launch_hook enter_hook;
  kiln_launch_hook exit_hook;
  void* hook_user;
} kiln_launch_settings;

/* Replaces all settings of the runtime, for launches that begin after it. Not meant for each
 * launch: every call keeps about 100 bytes for good. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_configure(kiln_launch_runtime* runtime,
                                                       const kiln_launch_settings* settings);

typedef struct kiln_launch_stats {
  uint32_t size;
  uint32_t reserved;
  uint64_t kernels_open;
  uint64_t kernels_resident;
  uint64_t resident_bytes;
  uint64_t loads;
  uint64_t loads_at_launch;  /* that a kiln_launch_prepare would have spared */
  uint64_t refused_launches; /* by `strict` */
  uint64_t unloads;
  uint64_t evictions;       /* unloads to keep a limit, or for want of memory */
  uint64_t unloads_put_off; /* attempts that came to nothing, because something captured or a live
                               graph launches the kernel */
  uint64_t out_of_memory_loads;
  uint64_t live_graphs;
} kiln_launch_stats;

/* Since the runtime was first opened. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_get_stats(kiln_launch_runtime* runtime,
                                                       kiln_launch_stats* stats);

/* Unloads what nobody has open any more, and what is above the limits, in one context after the
 * other. Waits for each device where there is something to unload. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_trim(kiln_launch_runtime* runtime);

typedef struct kiln_launch_device {
  uint32_t size;
  int32_t ordinal;
  char name[128];        /* "NVIDIA H200" */
  char architecture[64]; /* "90", "gfx942:sramecc+:xnack-": kernels are compiled for what comes
                            before the colon */
  uint32_t warp_size;
  uint32_t threads_max; /* of a block */
  uint64_t shared_bytes_max;
  uint64_t l2_bytes;
} kiln_launch_device;

/* `device`: its number, or -1 for that of the thread's current context. Makes no context. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_get_device(kiln_launch_runtime* runtime,
                                                        int32_t device, kiln_launch_device* out);

/* Whose memory it is. INVALID_ARGUMENT: none that the driver knows of. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_address_get_device(kiln_launch_runtime* runtime,
                                                                uint64_t address, int32_t* device);

/* --- Artifacts: a binary and what a launcher must know of it --------------------------------- */

typedef struct kiln_launch_hot_options {
  uint32_t size;
  /* Not 0: the file may belong to `server_uid` too, besides root and this user. */
  uint32_t has_server_uid;
  uint32_t server_uid;
  uint32_t reserved;
  /* 32 bytes: a file of another key is refused. NULL: any. */
  const uint8_t* key;
} kiln_launch_hot_options;

/* From a file of the hot directory, `<run>/hot/<2 hex digits>/<key>`. It must be one that nobody
 * else could have written. `options` may be NULL. NOT_FOUND, PERMISSION_DENIED, DATA_LOSS,
 * FAILED_PRECONDITION (written by a newer Kiln). */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_open_hot(
    const char* path, const kiln_launch_hot_options* options, kiln_launch_artifact** artifact);

/* From the JSON file that `kiln compile -o` writes; the binary lies beside it. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_open_json(const char* path,
                                                                kiln_launch_artifact** artifact);

typedef struct kiln_launch_bytes {
  uint32_t size;
  uint32_t reserved;
  /* JSON with `metadata`: HotArtifact::document() of libkiln, or what `kiln compile -o` writes. */
  const char* json;
  uint64_t json_bytes;
  /* cubin or HSACO. */
  const void* binary;
  uint64_t binary_bytes;
  /* SHA-256 of the binary, 32 bytes. NULL: as the JSON says. */
  const uint8_t* digest;
  /* The compile key, 32 bytes, for errors and sharing. NULL: as the JSON says, or unknown; then a
   * kernel is shared, and tuned, by its binary and by what of the JSON a launch depends on. */
  const uint8_t* key;
} kiln_launch_bytes;

/* From memory, which is copied. INVALID_ARGUMENT, DATA_LOSS. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_open_bytes(const kiln_launch_bytes* bytes,
                                                                 kiln_launch_artifact** artifact);
KILN_LAUNCH_API void kiln_launch_artifact_close(kiln_launch_artifact* artifact);

/* Strings live as long as the artifact. */
typedef struct kiln_launch_artifact_info {
  uint32_t size;
  uint32_t parameter_count; /* how many arguments a launch passes; hidden ones are not counted */
  const char* name;         /* the entry point */
  const char* backend;      /* "cuda", "hip" */
  const char* architecture; /* "90", "90a", "gfx942" */
  const uint8_t* key;       /* 32 bytes; zeroes: not known */
  const uint8_t* digest;    /* 32 bytes, of the binary */
  uint64_t binary_bytes;
  uint32_t num_warps; /* after compilation; 0: the launch says its block */
  uint32_t num_ctas;  /* of one cluster */
  uint32_t warp_size;
  uint32_t hidden_pointers; /* appended by this library */
  uint64_t shared_bytes;
  uint64_t global_scratch_bytes;  /* of one program */
  uint64_t profile_scratch_bytes; /* of one program */
} kiln_launch_artifact_info;

KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_get_info(const kiln_launch_artifact* artifact,
                                                               kiln_launch_artifact_info* info);

typedef struct kiln_launch_parameter {
  uint32_t size;
  uint32_t bytes;   /* that an argument has; 0: not known */
  const char* name; /* may be empty */
  const char* type; /* as Triton, its IR or PTX spells it: "*fp16", "i32", "!tt.tensordesc<...>" */
} kiln_launch_parameter;

/* Strings live as long as the artifact. INVALID_ARGUMENT: no such parameter. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_get_parameter(
    const kiln_launch_artifact* artifact, uint32_t index, kiln_launch_parameter* parameter);

/* --- Kernels: an artifact in a context ------------------------------------------------------- */

/* In the thread's current context (`device` -1; a framework has made one), or in the primary
 * context of a device. Does not load it. The same artifact in the same context is the same kernel
 * for everybody in the process. FAILED_PRECONDITION: compiled for another architecture (both are
 * named), or no context is current. RESOURCE_EXHAUSTED: it needs more than the device has. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_kernel_open(kiln_launch_runtime* runtime,
                                                         kiln_launch_artifact* artifact,
                                                         int32_t device,
                                                         kiln_launch_kernel** kernel);
/* The last close of a kernel unloads it, which waits for the device, and ends no capture; one that
 * a live graph launches is unloaded after the graph is gone, at a later load or close in its
 * context, or by a trim. */
KILN_LAUNCH_API void kiln_launch_kernel_close(kiln_launch_kernel* kernel);

/* Loads it, where it is not loaded, so that no launch has to. Waits for what runs on the device,
 * and for no other device (but with CUDA_MODULE_LOADING=EAGER the driver loads for all of them).
 * Where the device has no memory for it, other kernels of the context are unloaded one by one until
 * there is room: the least recently launched first, or without limits, where nobody notes launches,
 * those loaded first. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_prepare(kiln_launch_kernel* kernel);

typedef struct kiln_launch_config {
  uint32_t size;
  /* Programs along x, y, z; of kernels with clusters this counts clusters, as Triton does. With a
   * zero nothing is launched, which is a success. */
  uint32_t grid[3];
  /* Threads along x, y, z. Zeroes: as the kernel was compiled. Only kernels out of CUDA C++ or PTX
   * take anything else. */
  uint32_t block[3];
  /* Dynamic shared memory besides what the kernel itself asks for: with that, up to what the device
   * has for a block (`shared_bytes_max`). */
  uint32_t dynamic_shared_bytes;
  /* Not 0: programmatic dependent launch, all blocks resident at once; also where the kernel was
   * not compiled with it. */
  uint32_t pdl;
  uint32_t cooperative;
  void* stream;
  /* The size of each argument, to be checked against the parameters. NULL: not checked. */
  const uint32_t* argument_bytes;
} kiln_launch_config;

/* Puts one launch on the stream and returns. `arguments` has one pointer per parameter, to its
 * value: a uint64_t for a pointer, an int32_t for "i32", two bytes for "fp16", and so on. The
 * values are read before the call returns. Hidden parameters and scratch are this library's. May be
 * called with any context current, and while the stream captures: then the graph's kernels and
 * the buffers that arguments lead to (see kiln_launch_check_free) are remembered for as long as the
 * graph lives.
 * INVALID_ARGUMENT: a wrong number or size of arguments, an impossible grid or block, more shared
 * memory than there is.
 * FAILED_PRECONDITION: not loaded, in strict mode; the NULL stream, while another one captures.
 * RESOURCE_EXHAUSTED. INTERNAL. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_enqueue(kiln_launch_kernel* kernel,
                                                     const kiln_launch_config* config,
                                                     const void* const* arguments,
                                                     uint32_t argument_count);

/* What is put on `stream` from now on, launches of the kernel among it, waits for what is on
 * `producer` by now. Both belong to the kernel's context. Inside a capture this forks and joins as
 * an event of the driver's does. FAILED_PRECONDITION: `stream` captures, and `producer` does not,
 * or into another graph; the capture goes on. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_stream_wait(kiln_launch_kernel* kernel, void* stream,
                                                         void* producer);

typedef struct kiln_launch_kernel_info {
  uint32_t size;
  uint32_t registers;           /* a thread */
  uint32_t local_bytes;         /* a thread: stack and spills */
  uint32_t static_shared_bytes; /* a block */
  uint32_t threads_max;         /* a block, with so many registers */
  uint32_t reserved;
} kiln_launch_kernel_info;

/* What the driver says of it. FAILED_PRECONDITION: not loaded. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_kernel_get_info(kiln_launch_kernel* kernel,
                                                             kiln_launch_kernel_info* info);

typedef struct kiln_launch_times {
  uint32_t size;
  uint32_t reserved;
  uint64_t launches; /* measured, since the last reset */
  uint64_t dropped;  /* not measured: too many were under way */
  double total_ms;   /* on the device */
  double min_ms;
  double max_ms;
} kiln_launch_times;

/* How long its launches took, where the settings have them measured; what a load took is no part of
 * it. Waits for those under way. Those under capture are not measured. `reset` not 0: the next
 * reading begins anew, if this one succeeds. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_kernel_get_times(kiln_launch_kernel* kernel,
                                                              uint32_t reset,
                                                              kiln_launch_times* times);

/* --- Tensor descriptors ---------------------------------------------------------------------- */

typedef struct kiln_launch_tensor {
  uint32_t size;
  uint32_t rank;           /* 1 to 5 */
  uint64_t address;        /* a multiple of 16 */
  int64_t shape[5];        /* elements, row-major */
  int64_t strides[5];      /* elements; the last is 1 */
  uint32_t fills_with_nan; /* not 0: what lies outside reads as NaN */
  uint32_t rounds_to_tf32; /* not 0: float32 is rounded to tf32 on its way */
} kiln_launch_tensor;

/* The arguments for the tensor descriptor that begins at parameter number `parameter`, however the
 * kernel takes it (a CUtensorMap by value, or pointer and lengths). May be used for many launches
 * of the kernel, as long as the tensor stays where it is. INVALID_ARGUMENT: no descriptor of that
 * rank begins there, or the tensor cannot be one, or is to be rounded and is no float32.
 * UNIMPLEMENTED: it is an im2col one. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_descriptor_open(kiln_launch_kernel* kernel,
                                                             uint32_t parameter,
                                                             const kiln_launch_tensor* tensor,
                                                             kiln_launch_descriptor** descriptor);
KILN_LAUNCH_API void kiln_launch_descriptor_close(kiln_launch_descriptor* descriptor);

/* Copies the argument pointers to `arguments` (room for `capacity`) and says how many there are.
 * They lead into the descriptor: it must live until the launch has returned. INVALID_ARGUMENT:
 * there is too little room. */
KILN_LAUNCH_API kiln_launch_code
kiln_launch_descriptor_get_arguments(const kiln_launch_descriptor* descriptor,
                                     const void** arguments, uint32_t capacity, uint32_t* count);

/* --- Captured graphs ------------------------------------------------------------------------- */

/* Launches that a stream captures are remembered by themselves, with the buffers that their
 * arguments lead to, until the graph and all that was instantiated from it are destroyed. Arguments
 * lead to a buffer as pointers, as tensor maps and, where a kernel is CUDA C++ or PTX, as whatever
 * has eight bytes that the driver knows for an address. What lies in memory is not looked into. */

/* Names the graph that the stream captures into, for messages. FAILED_PRECONDITION: it does not. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_graph_set_name(kiln_launch_runtime* runtime,
                                                            void* stream, const char* name);

/* Adds a buffer that the graph refers to and that no launch of this library shows, or one with its
 * whole length and a name. FAILED_PRECONDITION: the stream does not capture. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_graph_add_buffer(kiln_launch_runtime* runtime,
                                                              void* stream, uint64_t address,
                                                              uint64_t bytes, const char* name);

/* To be asked before device memory is freed. FAILED_PRECONDITION, with buffer and graph named: a
 * live graph refers to some of it. Arguments of captured launches count as their first byte. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_check_free(kiln_launch_runtime* runtime,
                                                        uint64_t address, uint64_t bytes);

/* --- Autotuning ------------------------------------------------------------------------------ */

/* One of several ways to do the same work. */
typedef struct kiln_launch_candidate {
  uint32_t size;
  uint32_t argument_count;
  /* NULL: left out, as one that did not compile or does not fit the device. */
  kiln_launch_kernel* kernel;
  /* As for kiln_launch_enqueue; its stream does not count. */
  const kiln_launch_config* config;
  const void* const* arguments;
} kiln_launch_candidate;

/* Device memory. Has no `size`, as it will never have another member. */
typedef struct kiln_launch_range {
  uint64_t address;
  uint64_t bytes;
} kiln_launch_range;

/* Where times are kept from one process to the next, by keys that mean nothing outside: the daemon
 * (kiln::TuningStore of libkiln), a file, a table. Keys are printable, at most 128 bytes; values at
 * most 256 bytes. Neither function can fail a tuning: what cannot be had is not there, what cannot
 * be put is timed again by the next one. Called on the tuning thread, and by
 * tunings on two devices at once; they must not tune. */
typedef struct kiln_launch_tuning_store {
  uint32_t size;
  uint32_t reserved;
  /* Copies the value (there is room for `capacity`) and returns its length. 0: there is none. */
  uint64_t (*find)(void* user, const void* key, uint64_t key_bytes, void* value, uint64_t capacity);
  void (*put)(void* user, const void* key, uint64_t key_bytes, const void* value,
              uint64_t value_bytes);
  void* user;
} kiln_launch_tuning_store;

typedef struct kiln_launch_autotune_options {
  uint32_t size;
  uint32_t reserved;
  /* Everything runs on it, after what is there already. */
  void* stream;
  /* The memory that launches read, and that they write; of whole buffers. What is in both is copied
   * first and put back before each run and at the end; what is in `writes` alone holds anything
   * afterwards. Nothing is copied for buffers that do not overlap. */
  const kiln_launch_range* reads;
  uint64_t read_count;
  const kiln_launch_range* writes;
  uint64_t write_count;
  /* What the times depend on besides kernel, launch, model of the device and version of the driver,
   * in the caller's words: "m=4096 n=4096 k=512". Needed with a store. */
  const void* problem;
  uint64_t problem_bytes;
  /* NULL: none. */
  const kiln_launch_tuning_store* store;
  /* Of each candidate, on the device; 0: 25 and 100. */
  double warmup_ms;
  double repeat_ms;
  /* How much memory is overwritten before each measured run, to empty the L2 cache; 0: 256 MiB. */
  uint64_t flush_bytes;
  /* Asked before each candidate; not 0: no more is timed. NULL: none. */
  int32_t (*is_cancelled)(void* user);
  void* cancel_user;
} kiln_launch_autotune_options;

typedef struct kiln_launch_tuned {
  uint32_t size;
  kiln_launch_code code; /* 0: it has times */
  uint32_t is_stored;    /* not 0: they come from the store, nothing was run */
  uint32_t runs;         /* that they are of */
  double median_ms;
  double low_ms;    /* the 20th percentile */
  double high_ms;   /* the 80th */
  char reason[256]; /* why it was left out; empty where it was not */
} kiln_launch_tuned;

/* Says which of `count` candidates (whose structs lie one behind the other, all of one `size`) is
 * the fastest, by the median of runs with a cold L2 cache, measured as Triton's do_bench does.
 * Times that the store has are believed, the others measured and put into it one by one; with all
 * of them stored, nothing runs. A candidate that cannot be loaded or launched is left out. `tuned`
 * (may be NULL; each with its `size`) is filled in for all `count`, on failure too, but for calls
 * that are wrong. Launch hooks and launch times leave
 * it out.
 *
 * Contents: candidates are launched for real, with the arguments given. What they read must be in
 * its place once the stream's work so far is done (which is waited for): a kernel that computes
 * addresses from contents reads anywhere otherwise. Let the stream wait for what others write;
 * during the tuning, nobody else may use the memory. Blocks, for about `warmup_ms` + `repeat_ms` a
 * candidate, and while another tuning on its device goes on. Takes memory for the flush and the
 * copies from the scratch allocator. INVALID_ARGUMENT: kernels of several contexts; a range that is
 * not inside one allocation, as the driver knows them (pieces that are mapped one behind the other
 * are one); a store without `problem`.
 * FAILED_PRECONDITION: something would have to run, and the stream, or one that the NULL stream
 * waits for, captures. RESOURCE_EXHAUSTED: no memory. CANCELLED. INTERNAL: a candidate broke the
 * context (nothing can be put back then). Where no candidate runs, what the first one failed with.
 */
KILN_LAUNCH_API kiln_launch_code kiln_launch_autotune(kiln_launch_runtime* runtime,
                                                      const kiln_launch_candidate* candidates,
                                                      uint32_t count,
                                                      const kiln_launch_autotune_options* options,
                                                      kiln_launch_tuned* tuned, uint32_t* fastest);

#ifdef __cplusplus
}
#endif

#endif /* KILN_LAUNCH_H_ */
