/* Prints how the operations of a segment become kernels: plan TARGET <SEGMENT.json */
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
  kiln_graph_plan* plan = NULL;
  kiln_graph_plan_options options = {.size = sizeof options, .target = argc > 1 ? argv[1] : NULL};
  kiln_graph_kernel kernel = {.size = sizeof kernel};
  const char* explanation = NULL;
  if (kiln_graph_segment_open_json(json, bytes, &segment)) return fail("segment");
  if (kiln_graph_plan_open(segment, &options, &plan)) return fail("plan");
  kiln_graph_segment_close(segment);
  if (kiln_graph_plan_get_explanation(plan, &explanation)) return fail("explanation");
  if (kiln_graph_plan_get_kernel(plan, 0, &kernel)) return fail("kernel");
  printf("%s%s for %s: %u threads\n", explanation, kernel.kind, kernel.target, kernel.threads);
  kiln_graph_plan_close(plan);
  return 0;
}
