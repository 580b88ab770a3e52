/* launch_c KERNEL.json [DRIVER]: loads what `kiln compile -o` wrote and launches it once, with null pointers and zeroes for its
 * arguments, on a grid of one program: a kernel such as tests/kernels/vector_add.py then has nothing to do. */
#include <stdio.h>
#include <stdlib.h>

#include <kiln_launch.h>

static int Check(const char* what, kiln_launch_code code) {
  if (code == KILN_LAUNCH_OK) return 1;
  fprintf(stderr, "%s: %s\n", what, kiln_launch_error());
  return 0;
}

int main(int count, char** arguments) {
  kiln_launch_open_options options = {.size = sizeof options};
  kiln_launch_runtime* runtime = NULL;
  kiln_launch_artifact* artifact = NULL;
  kiln_launch_kernel* kernel = NULL;
  if (count < 2) {
    fprintf(stderr, "usage: %s KERNEL.json [DRIVER]\n", arguments[0]);
    return 2;
  }
  if (count > 2) options.driver_path = arguments[2];
  if (!Check("artifact", kiln_launch_artifact_open_json(arguments[1], &artifact)) ||
      !Check("driver", kiln_launch_open(&options, &runtime)) ||
      !Check("kernel", kiln_launch_kernel_open(runtime, artifact, 0, &kernel)) ||
      !Check("prepare", kiln_launch_prepare(kernel))) {
    return 1;
  }

  kiln_launch_artifact_info info = {.size = sizeof info};
  if (!Check("info", kiln_launch_artifact_get_info(artifact, &info))) return 1;
  /* 128 bytes of zeroes are a null pointer, a 0 of any width, and no valid tensor map. */
  static const char zeroes[128] = {0};
  const void** values = calloc(info.parameter_count, sizeof *values);
  for (uint32_t i = 0; i < info.parameter_count; ++i) values[i] = zeroes;
  kiln_launch_config config = {.size = sizeof config, .grid = {1, 1, 1}};
  if (!Check("launch", kiln_launch_enqueue(kernel, &config, values, info.parameter_count))) return 1;
  printf("launched %s\n", info.name);

  free(values);
  kiln_launch_kernel_close(kernel);
  kiln_launch_artifact_close(artifact);
  kiln_launch_close(runtime);
  return 0;
}
