/* The driver's stand-in, which knows a kernel k of one pointer and two hidden ones, and prints in
 * the end what was launched. */
#include <stddef.h>
#include <stdio.h>

void fake_cuda_define(const char* kernel, const size_t* parameter_bytes, size_t count);
size_t fake_cuda_launch_count(void);
const char* fake_cuda_launch(size_t index);

__attribute__((constructor)) static void Define(void) {
  static const size_t bytes[] = {8, 8, 8};
  fake_cuda_define("k", bytes, 3);
}

__attribute__((destructor)) static void Tell(void) {
  for (size_t i = 0; i < fake_cuda_launch_count(); ++i) puts(fake_cuda_launch(i));
}
