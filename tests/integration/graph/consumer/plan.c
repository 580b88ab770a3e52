/* Prints how the operations of a segment become kernels: plan TARGET... <SEGMENT.json */
#include <kiln_graph.h>
#include <stdio.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, kiln_graph_error());
  return 1;
}

int main(int argc, char** argv) {
  static char json[1 << 16];
  const size_t bytes = fread(json, 1, sizeof json, stdin);
  kiln_graph_segment* segment = NULL;
  kiln_graph_plan* plans[8] = {NULL};
  const uint32_t count = argc > 8 ? 8 : (uint32_t)argc - 1;
  kiln_graph_plan_options options = {.size = sizeof options};
  if (kiln_graph_segment_open_json(json, bytes, &segment)) return fail("segment");
  if (kiln_graph_plans_open(segment, &options, (const char* const*)argv + 1, count, plans, NULL)) {
    return fail("plan");
  }
  kiln_graph_segment_close(segment);
  for (uint32_t i = 0; i < count; ++i) {
    kiln_graph_kernel kernel = {.size = sizeof kernel};
    const char* explanation = NULL;
    if (kiln_graph_plan_get_explanation(plans[i], &explanation)) return fail("explanation");
    if (kiln_graph_plan_get_kernel(plans[i], 0, &kernel)) return fail("kernel");
    printf("%s%s for %s: %u threads\n", explanation, kernel.kind, kernel.target, kernel.threads);
    kiln_graph_plan_close(plans[i]);
  }
  return 0;
}
