// Runs the threads of a kernel on the host. The threads of a block take turns: each runs up to the
// next barrier of the block, or until it would wait for another block. Blocks that wait for each
// other take turns, too; shared memory does not outlive such a turn. Not for several threads.
#pragma once

#include "tests/testing/graph/host_grid.h"

namespace kiln::graph {

// The grid that every kernel reads.
HostGrid& TheHostGrid();

// Calls `kernel` once for each thread. Ends the process where threads wait for ever.
void RunGrid(void (*kernel)(void**), void** arguments, unsigned blocks, unsigned threads);

}  // namespace kiln::graph
