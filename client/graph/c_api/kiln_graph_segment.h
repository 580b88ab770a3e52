/* The part of kiln_graph.h that every other part stands on: codes, errors, segments. The rules are
 * there. */
#ifndef KILN_GRAPH_SEGMENT_H_
#define KILN_GRAPH_SEGMENT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILN_GRAPH_API __attribute__((visibility("default")))
#else
#define KILN_GRAPH_API
#endif

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
/* The JSON of docs/graph.md. `json_bytes` may be NULL. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_get_json(kiln_graph_segment* segment,
                                                           const char** json, uint64_t* json_bytes);
/* The same without the elements of constants, which kiln_graph_segment_get_value gives as they are:
 * a model may have gigabytes. */
KILN_GRAPH_API kiln_graph_code kiln_graph_segment_get_description(kiln_graph_segment* segment,
                                                                  const char** json,
                                                                  uint64_t* json_bytes);

#ifdef __cplusplus
}
#endif

#endif /* KILN_GRAPH_SEGMENT_H_ */
