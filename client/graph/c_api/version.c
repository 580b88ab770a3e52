#include "client/graph/c_api/kiln_graph.h"

const char* kiln_graph_version(void) { return KILN_VERSION; }
