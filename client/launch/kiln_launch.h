/* clang-format off: it would fill the lines of the example and of the rules. */
/* libkiln_launch: loads kernels that Kiln compiled and puts them on a GPU's streams.
 *
 * For C, C++ and whatever can call C (Python's ctypes among them). Needs no CUDA toolkit: the
 * driver is opened at run time. Speaks to no daemon: kernels come from what libkiln or the daemon
 * answered, from files of the hot directory, or from what `kiln compile -o` writes.
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
 * Errors: functions that can fail return a kiln_launch_code, 0 for success. kiln_launch_error()
 *   describes the last call that failed on the calling thread: it names the kernel, its key and the
 *   driver's error. A failed call does not change its out parameters.
 * Threads: every function may be called from any thread at any time, on the same objects too. Do
 *   not use an object while, or after, it is closed.
 * Ownership: close what *_open returns with the matching *_close, which takes NULL too. An artifact
 *   may be closed while its kernels are open; everything may be closed while launches run. The
 *   library keeps no pointer that it was passed after the call returns.
 * Structs: set `size` to sizeof the struct. Later versions add members at the end. The library
 *   accepts the shorter structs of older programs, and ignores unknown members of longer ones. Zero
 *   is the default of every member.
 * Handles of the driver: `stream` is a CUstream (cudaStream_t is the same), NULL the default
 *   stream. For OpenCL it is a cl_command_queue, and never NULL. Device addresses are uint64_t; for
 *   OpenCL they are pointers to unified shared memory or SVM.
 * Units are in the names; sizes are bytes, all else is a count.
 * Fork: the library does not work in a forked child, as the driver does not.
 * Unloading: dlclose is allowed at any time and does not unload the library: the driver calls into
 *   it when a captured graph ends.
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
  KILN_LAUNCH_CANCELLED = 1,           /* the caller cancelled */
  KILN_LAUNCH_INVALID_ARGUMENT = 3,    /* the call is wrong, whatever the machine */
  KILN_LAUNCH_NOT_FOUND = 5,           /* no such file */
  KILN_LAUNCH_PERMISSION_DENIED = 7,   /* an untrusted user could have written the file */
  KILN_LAUNCH_RESOURCE_EXHAUSTED = 8,  /* not enough memory, threads or registers */
  KILN_LAUNCH_FAILED_PRECONDITION = 9, /* another architecture, not prepared, under capture, ... */
  KILN_LAUNCH_UNIMPLEMENTED = 12,      /* not supported by this driver or this library */
  KILN_LAUNCH_INTERNAL = 13,           /* any other failure of the driver */
  KILN_LAUNCH_UNAVAILABLE = 14,        /* no driver, or no GPU */
  KILN_LAUNCH_DATA_LOSS = 15           /* bytes do not match their digest */
};

typedef struct kiln_launch_runtime kiln_launch_runtime;
typedef struct kiln_launch_artifact kiln_launch_artifact;
typedef struct kiln_launch_kernel kiln_launch_kernel;
typedef struct kiln_launch_descriptor kiln_launch_descriptor;

/* --- Errors, version ------------------------------------------------------------------------- */

/* "0.1.0". Static. */
KILN_LAUNCH_API const char* kiln_launch_version(void);

/* Describes the last call that failed on this thread. Empty before the first failure, and when the
 * process had no memory for the text. Valid until the next failed call on this thread. */
KILN_LAUNCH_API const char* kiln_launch_error(void);

/* The driver's result in that call (a CUresult, a hipError_t, a cl_int); 0: it did not fail. */
KILN_LAUNCH_API int32_t kiln_launch_driver_result(void);

/* --- The runtime: one per driver library in a process ---------------------------------------- */

typedef struct kiln_launch_open_options {
  uint32_t size;
  uint32_t reserved;
  /* "cuda" (also NULL), "hip", or "spirv", which OpenCL loads. */
  const char* backend;
  /* The driver library, as dlopen(3) takes it. NULL: libcuda.so.1; for HIP libamdhip64.so, .so.7 or
   * .so.6, and the loaded one if there is one; for OpenCL its loader libOpenCL.so.1. */
  const char* driver_path;
} kiln_launch_open_options;

/* Opens the driver. A second open of the same driver returns the same runtime, so that a process
 * shares loaded kernels; close each once. `options` may be NULL. UNAVAILABLE: no driver, no GPU, or
 * a driver before CUDA 12.0, ROCm 6.0 or OpenCL 2.1. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_open(const kiln_launch_open_options* options,
                                                  kiln_launch_runtime** runtime);
/* Open kernels and captured graphs stay valid. */
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
  /* Not 0: a launch of a kernel that is not loaded fails (FAILED_PRECONDITION) instead of loading
   * it. Loading waits for the device. */
  uint32_t strict;
  /* Not 0: measures launches by two events each, see kiln_launch_kernel_get_times. */
  uint32_t times_launches;
  uint32_t reserved;
  /* How many kernels, and bytes of binaries, stay loaded in each context; 0: no limit. The least
   * recently launched kernels are unloaded first, and loaded again when they are launched. A kernel
   * that a live graph launches is never unloaded. */
  uint64_t resident_kernels_max;
  uint64_t resident_bytes_max;
  /* Scratch memory of kernels that need it. NULL: the driver's stream-ordered memory. `allocate`
   * returns 0 when it has none. `release` is called once the launch is on the stream, so it must
   * give the memory back in stream order. Both are called on the launching thread. A captured
   * launch uses neither: nodes of the graph allocate and free the driver's memory in a replay. */
  uint64_t (*scratch_allocate)(void* user, uint64_t bytes, uint64_t alignment, void* stream);
  void (*scratch_release)(void* user, uint64_t address, void* stream);
  void* scratch_user;
  /* Called before and after each launch, on the launching thread, also when the launch fails, but
   * not for an empty grid. Hooks may launch. NULL: none. */
  kiln_launch_hook enter_hook;
  kiln_launch_hook exit_hook;
  void* hook_user;
} kiln_launch_settings;

/* Replaces all settings of the runtime, for launches that begin afterwards. Do not call it for each
 * launch: every call keeps about 100 bytes until the process ends. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_configure(kiln_launch_runtime* runtime,
                                                       const kiln_launch_settings* settings);

typedef struct kiln_launch_stats {
  uint32_t size;
  uint32_t reserved;
  uint64_t kernels_open;
  uint64_t kernels_resident;
  uint64_t resident_bytes;
  uint64_t loads;
  uint64_t loads_at_launch;  /* kiln_launch_prepare would have avoided them */
  uint64_t refused_launches; /* by `strict` */
  uint64_t unloads;
  uint64_t evictions;       /* unloads to keep a limit or to make room */
  uint64_t unloads_put_off; /* failed attempts: a capture was active, or a live graph launches the
                               kernel */
  uint64_t out_of_memory_loads;
  uint64_t live_graphs;
  uint64_t captured_launches;
} kiln_launch_stats;

/* Since the runtime was first opened. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_get_stats(kiln_launch_runtime* runtime,
                                                       kiln_launch_stats* stats);

/* Unloads kernels that are no longer open and kernels above the limits, context by context. Waits
 * for each device on which it unloads. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_trim(kiln_launch_runtime* runtime);

typedef struct kiln_launch_device {
  uint32_t size;
  int32_t ordinal;
  char name[128];        /* "NVIDIA H200" */
  char architecture[64]; /* "90", "gfx942:sramecc+:xnack-": kernels are compiled for the part before
                            the colon. OpenCL: the newest SPIR-V that it takes, "1.4"; "": none */
  uint32_t warp_size;
  uint32_t threads_max; /* of a block */
  uint64_t shared_bytes_max;
  uint64_t l2_bytes;
} kiln_launch_device;

/* `device`: a number, or -1 for the device of the thread's current context. Makes no context. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_get_device(kiln_launch_runtime* runtime,
                                                        int32_t device, kiln_launch_device* out);

/* The device that `address` belongs to. INVALID_ARGUMENT: the driver does not know the address. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_address_get_device(kiln_launch_runtime* runtime,
                                                                uint64_t address, int32_t* device);

/* The primary context of a device, which is made if necessary and never released; or, for `device`
 * -1, the thread's current context, NULL for none. A CUcontext or a cl_context. Make OpenCL's
 * queues and memory in it, or bring a context of your own: */
KILN_LAUNCH_API kiln_launch_code kiln_launch_get_context(kiln_launch_runtime* runtime,
                                                         int32_t device, void** context);

/* OpenCL alone, which has no current context: makes a cl_context of one device current on this
 * thread, NULL for none. The library never releases it. FAILED_PRECONDITION: it has several
 * devices. UNIMPLEMENTED: for CUDA and HIP. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_set_context(kiln_launch_runtime* runtime,
                                                         void* context);

/* --- Artifacts: a binary and its metadata ----------------------------------------------------- */

typedef struct kiln_launch_hot_options {
  uint32_t size;
  /* Not 0: the file may belong to `server_uid` too, besides root and this user. */
  uint32_t has_server_uid;
  uint32_t server_uid;
  uint32_t reserved;
  /* 32 bytes: a file of another key is refused. NULL: any. */
  const uint8_t* key;
} kiln_launch_hot_options;

/* Reads a file of the hot directory, `<run>/hot/<2 hex digits>/<key>`. Only trusted users may be
 * able to write it. `options` may be NULL. NOT_FOUND, PERMISSION_DENIED, DATA_LOSS,
 * FAILED_PRECONDITION (written by a newer Kiln). */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_open_hot(
    const char* path, const kiln_launch_hot_options* options, kiln_launch_artifact** artifact);

/* Reads the JSON file that `kiln compile -o` writes, and the binary beside it. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_open_json(const char* path,
                                                                kiln_launch_artifact** artifact);

typedef struct kiln_launch_bytes {
  uint32_t size;
  uint32_t reserved;
  /* JSON with `metadata`: HotArtifact::document() of libkiln, or what `kiln compile -o` writes. */
  const char* json;
  uint64_t json_bytes;
  /* cubin, HSACO or SPIR-V module. */
  const void* binary;
  uint64_t binary_bytes;
  /* SHA-256 of the binary, 32 bytes. NULL: as the JSON says. */
  const uint8_t* digest;
  /* The compile key, 32 bytes, for errors and sharing. NULL: as the JSON says, or unknown. Kernels
   * without a key are the same if their binaries and metadata are equal. */
  const uint8_t* key;
} kiln_launch_bytes;

/* Copies `bytes`. INVALID_ARGUMENT, DATA_LOSS. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_open_bytes(const kiln_launch_bytes* bytes,
                                                                 kiln_launch_artifact** artifact);
KILN_LAUNCH_API void kiln_launch_artifact_close(kiln_launch_artifact* artifact);

/* Strings live as long as the artifact. */
typedef struct kiln_launch_artifact_info {
  uint32_t size;
  uint32_t parameter_count; /* the arguments of a launch, without hidden ones */
  const char* name;         /* the entry point */
  const char* backend;      /* "cuda", "hip", "spirv" */
  const char* architecture; /* "90", "90a", "gfx942", "1.2" (of SPIR-V) */
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
  uint32_t bytes;   /* size of an argument; 0: not known */
  const char* name; /* may be empty */
  const char* type; /* as Triton, its IR or PTX spells it: "*fp16", "i32", "!tt.tensordesc<...>" */
} kiln_launch_parameter;

/* Strings live as long as the artifact. INVALID_ARGUMENT: no such parameter. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_artifact_get_parameter(
    const kiln_launch_artifact* artifact, uint32_t index, kiln_launch_parameter* parameter);

/* --- Kernels: an artifact in a context ------------------------------------------------------- */

/* Opens a kernel in the thread's current context (`device` -1), or in the primary context of a
 * device. Does not load it. A process has one kernel for an artifact in a context.
 * FAILED_PRECONDITION: compiled for another architecture (the message names both), or no context is
 * current. RESOURCE_EXHAUSTED: the kernel needs more than the device has. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_kernel_open(kiln_launch_runtime* runtime,
                                                         kiln_launch_artifact* artifact,
                                                         int32_t device,
                                                         kiln_launch_kernel** kernel);
/* Opens the kernel of a serialized kiln.v1.CompileResponse, which every client of the daemon gets:
 * artifact and kernel in one call. Errors of kiln_launch_kernel_open, and INVALID_ARGUMENT: no such
 * message, or without the content of a cubin, HSACO or SPIR-V module. DATA_LOSS. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_kernel_open_response(kiln_launch_runtime* runtime,
                                                                  const void* response,
                                                                  uint64_t response_bytes,
                                                                  int32_t device,
                                                                  kiln_launch_kernel** kernel);
/* The last close of a kernel unloads it. Unloading waits for the device and ends no capture. A
 * kernel that a live graph launches is unloaded after the end of the graph, at a later load, close
 * or trim in its context. */
KILN_LAUNCH_API void kiln_launch_kernel_close(kiln_launch_kernel* kernel);

/* Loads the kernel, so that no launch has to. Waits for its device, and for no other device (but
 * with CUDA_MODULE_LOADING=EAGER the driver loads on all of them). If the device has no memory for
 * it, other kernels of the context are unloaded one by one until there is room: the least recently
 * launched first, or without limits the first loaded first. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_prepare(kiln_launch_kernel* kernel);

typedef struct kiln_launch_config {
  uint32_t size;
  /* Programs along x, y, z. Counts clusters for kernels with clusters, as Triton does. A zero
   * launches nothing and succeeds. */
  uint32_t grid[3];
  /* Threads along x, y, z. Zeroes: as the kernel was compiled. Only kernels from CUDA C++, PTX or
   * OpenCL C accept other values; a kernel from OpenCL C needs them. */
  uint32_t block[3];
  /* Dynamic shared memory in addition to the kernel's own. Both together: at most
   * `shared_bytes_max` of the device. */
  uint32_t dynamic_shared_bytes;
  /* Not 0: programmatic dependent launch; all blocks resident at once. Zero: as the kernel was
   * compiled. */
  uint32_t pdl;
  uint32_t cooperative;
  void* stream;
  /* The size of each argument, to check against the parameters. NULL: no check. */
  const uint32_t* argument_bytes;
  /* Device memory of the caller's for the kernel's scratch, as many bytes as the artifact's info
   * says times the programs; a graph uses it at each replay. 0: this library allocates it. */
  uint64_t global_scratch;
  uint64_t profile_scratch;
} kiln_launch_config;

/* Puts one launch on the stream and returns. `arguments` has one pointer per parameter, to its
 * value: a uint64_t for a pointer, an int32_t for "i32", two bytes for "fp16", and so on; for a
 * pointer to local memory ("*local f32") a uint64_t, the length of that memory in bytes. The
 * values are read before the call returns. The library adds hidden parameters and scratch. Any
 * context may be current. If the stream captures, the library remembers the kernel and the buffers
 * of its arguments (see kiln_launch_check_free) as long as the graph lives.
 * INVALID_ARGUMENT: a wrong number or size of arguments, an impossible grid or block, more shared
 * memory than there is.
 * FAILED_PRECONDITION: not loaded, in strict mode; the NULL stream, while another one captures.
 * RESOURCE_EXHAUSTED. INTERNAL. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_enqueue(kiln_launch_kernel* kernel,
                                                     const kiln_launch_config* config,
                                                     const void* const* arguments,
                                                     uint32_t argument_count);

/* Later work on `stream` waits for the work that is on `producer` now. Both streams belong to the
 * kernel's context. Inside a capture this forks and joins as an event of the driver does.
 * FAILED_PRECONDITION: `stream` captures, and `producer` does not, or captures into another graph;
 * the capture goes on. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_stream_wait(kiln_launch_kernel* kernel, void* stream,
                                                         void* producer);

/* Sets memory of the kernel's device to `value`, in stream order; a capture gets a node for it. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_fill(kiln_launch_kernel* kernel, void* stream,
                                                  uint64_t address, uint8_t value, uint64_t bytes);

typedef struct kiln_launch_kernel_info {
  uint32_t size;
  uint32_t registers;           /* a thread */
  uint32_t local_bytes;         /* a thread: stack and spills */
  uint32_t static_shared_bytes; /* a block */
  uint32_t threads_max;         /* a block, with so many registers */
  uint32_t reserved;
} kiln_launch_kernel_info;

/* The driver's facts about a loaded kernel. FAILED_PRECONDITION: not loaded. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_kernel_get_info(kiln_launch_kernel* kernel,
                                                             kiln_launch_kernel_info* info);

/* The largest grid of a cooperative launch in blocks: how many the device holds at once. 0: not
 * even one. UNIMPLEMENTED: the device takes none. FAILED_PRECONDITION: not loaded. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_kernel_get_resident_blocks(
    kiln_launch_kernel* kernel, uint32_t threads, uint32_t dynamic_shared_bytes, uint32_t* blocks);

typedef struct kiln_launch_times {
  uint32_t size;
  uint32_t reserved;
  uint64_t launches; /* measured, since the last reset */
  uint64_t dropped;  /* not measured: too many were under way */
  double total_ms;   /* on the device */
  double min_ms;
  double max_ms;
} kiln_launch_times;

/* How long the kernel's launches took, without loads, if `times_launches` is set. Waits for
 * launches under way. Does not measure captured launches. `reset` not 0: the next call counts from
 * here, if this one succeeds. */
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

/* The arguments for the tensor descriptor that begins at parameter number `parameter`: a
 * CUtensorMap by value, or pointer and lengths, as the kernel takes it. Use it for any number of
 * launches of the kernel while the tensor does not move. INVALID_ARGUMENT: no descriptor of that
 * rank begins there, the tensor does not fit, or is to be rounded and is not float32.
 * UNIMPLEMENTED: im2col. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_descriptor_open(kiln_launch_kernel* kernel,
                                                             uint32_t parameter,
                                                             const kiln_launch_tensor* tensor,
                                                             kiln_launch_descriptor** descriptor);
KILN_LAUNCH_API void kiln_launch_descriptor_close(kiln_launch_descriptor* descriptor);

/* Copies the argument pointers to `arguments` (room for `capacity`) and their number to `count`.
 * The pointers lead into the descriptor: it must live until the launch has returned.
 * INVALID_ARGUMENT: too little room. */
KILN_LAUNCH_API kiln_launch_code
kiln_launch_descriptor_get_arguments(const kiln_launch_descriptor* descriptor,
                                     const void** arguments, uint32_t capacity, uint32_t* count);

/* --- Captured graphs ------------------------------------------------------------------------- */

/* The library remembers captured launches and the buffers of their arguments until the graph and
 * all its instances are destroyed. A buffer's argument is a pointer or a tensor map; for a kernel
 * from CUDA C++ or PTX it is any eight bytes that the driver knows as an address. The library does
 * not look into memory. */

/* Names the graph that the stream captures into, for messages. FAILED_PRECONDITION: the stream does
 * not capture. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_graph_set_name(kiln_launch_runtime* runtime,
                                                            void* stream, const char* name);

/* Adds a buffer to the graph that the stream captures into: one that no launch shows, or one with
 * its whole length and a name. FAILED_PRECONDITION: the stream does not capture. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_graph_add_buffer(kiln_launch_runtime* runtime,
                                                              void* stream, uint64_t address,
                                                              uint64_t bytes, const char* name);

/* Call it before freeing device memory. FAILED_PRECONDITION: a live graph refers to some of it; the
 * message names buffer and graph. A buffer of an argument counts as its first byte. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_check_free(kiln_launch_runtime* runtime,
                                                        uint64_t address, uint64_t bytes);

/* --- Autotuning ------------------------------------------------------------------------------ */

/* One of several ways to do the same work. */
typedef struct kiln_launch_candidate {
  uint32_t size;
  uint32_t argument_count;
  /* NULL: left out, such as a kernel that did not compile. */
  kiln_launch_kernel* kernel;
  /* As for kiln_launch_enqueue; its stream is ignored. */
  const kiln_launch_config* config;
  const void* const* arguments;
} kiln_launch_candidate;

/* Device memory. Has no `size`: it will never have another member. */
typedef struct kiln_launch_range {
  uint64_t address;
  uint64_t bytes;
} kiln_launch_range;

/* Keeps times for later processes: the daemon (kiln::TuningStore of libkiln), a file, a table. Keys
 * are opaque, printable, at most 128 bytes; values have at most 256 bytes. Neither function can
 * fail a tuning. Tunings on two devices may call them at the same time, each on its own thread.
 * They must not tune. */
typedef struct kiln_launch_tuning_store {
  uint32_t size;
  uint32_t reserved;
  /* Copies the value (room for `capacity`) and returns its length. 0: no value. */
  uint64_t (*find)(void* user, const void* key, uint64_t key_bytes, void* value, uint64_t capacity);
  void (*put)(void* user, const void* key, uint64_t key_bytes, const void* value,
              uint64_t value_bytes);
  void* user;
} kiln_launch_tuning_store;

typedef struct kiln_launch_autotune_options {
  uint32_t size;
  uint32_t reserved;
  /* Everything runs on this stream, after its present work. */
  void* stream;
  /* The memory that launches read, and the memory that they write, as whole buffers. The overlap of
   * both is saved first, and restored before each run and at the end. The rest of `writes` has
   * undefined content afterwards. */
  const kiln_launch_range* reads;
  uint64_t read_count;
  const kiln_launch_range* writes;
  uint64_t write_count;
  /* Names what the times depend on besides kernel, launch, model of the device and version of the
   * driver: "m=4096 n=4096 k=512". Required with a store. */
  const void* problem;
  uint64_t problem_bytes;
  /* NULL: none. */
  const kiln_launch_tuning_store* store;
  /* For each candidate, on the device; 0: 25 and 100. */
  double warmup_ms;
  double repeat_ms;
  /* Memory to overwrite before each measured run, to empty the L2 cache; 0: 256 MiB. */
  uint64_t flush_bytes;
  /* Called before each candidate; not 0 ends the tuning. NULL: none. */
  int32_t (*is_cancelled)(void* user);
  void* cancel_user;
} kiln_launch_autotune_options;

typedef struct kiln_launch_tuned {
  uint32_t size;
  kiln_launch_code code; /* 0: it has times */
  uint32_t is_stored;    /* not 0: the times come from the store */
  uint32_t runs;         /* the number of measured runs */
  double median_ms;
  double low_ms;    /* the 20th percentile */
  double high_ms;   /* the 80th */
  char reason[256]; /* why it was left out, or "" */
} kiln_launch_tuned;

/* Finds the fastest of `count` candidates (an array of structs of one `size`) by the median of runs
 * with a cold L2 cache, measured as Triton's do_bench does. Takes times from the store, measures
 * the others, and stores each. With all times stored, nothing runs. Leaves out a candidate that
 * cannot be loaded or launched. Fills in `tuned` (may be NULL; each with its `size`) for all
 * `count`, also on failure, but not for wrong calls. Launch hooks and launch times do not see a
 * tuning.
 *
 * Contents: candidates are launched for real, with the given arguments. The content that they read
 * must be there once the stream's present work is done: a kernel that computes addresses from
 * contents would otherwise read anywhere. Let the stream wait for other writers; nothing else may
 * use the memory during the tuning. Blocks for about `warmup_ms` + `repeat_ms` a candidate, and for
 * another tuning on the same device. Takes memory for the flush and the copies from the scratch
 * allocator.
 * INVALID_ARGUMENT: kernels of several contexts; a range that is not inside one allocation of the
 * driver (pieces that are mapped one after the other are one); a store without `problem`.
 * FAILED_PRECONDITION: a candidate would have to run, and the stream, or one that the NULL stream
 * waits for, captures. RESOURCE_EXHAUSTED: no memory. CANCELLED. INTERNAL: a candidate broke the
 * context (nothing can be restored then). If no candidate runs: the failure of the first one. */
KILN_LAUNCH_API kiln_launch_code kiln_launch_autotune(kiln_launch_runtime* runtime,
                                                      const kiln_launch_candidate* candidates,
                                                      uint32_t count,
                                                      const kiln_launch_autotune_options* options,
                                                      kiln_launch_tuned* tuned, uint32_t* fastest);

#ifdef __cplusplus
}
#if __cplusplus >= 201103L
/* The same with protobuf's message itself, of any class that can serialize it. */
template <typename CompileResponse>
kiln_launch_code kiln_launch_kernel_open_response(kiln_launch_runtime* runtime,
                                                  const CompileResponse& response, int32_t device,
                                                  kiln_launch_kernel** kernel) {
  const auto bytes = response.SerializeAsString();
  return kiln_launch_kernel_open_response(runtime, bytes.data(), bytes.size(), device, kernel);
}
#endif
#endif

#endif /* KILN_LAUNCH_H_ */
