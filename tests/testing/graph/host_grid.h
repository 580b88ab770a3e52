// Where a kernel on the host finds its place in the grid, and how its threads take turns. The
// library of kernels includes this, too: no header from elsewhere, which g++ would read each time.
#pragma once

struct OneDimension {
  unsigned x;
};

struct HostGrid {
  OneDimension block, thread, blocks;
  unsigned barriers;  // barriers that all threads of the block have left
  void (*barrier)();
  void (*give_turn)();
};
