#include "tests/testing/graph/host_threads.h"

#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace kiln::graph {
namespace {

// Runs the threads of a block one after the other. Another fiber takes over where a thread waits.
struct Fiber {
  ucontext_t context;
  std::array<char, 1 << 16> stack;
};

enum class ThreadState : uint8_t { kRuns, kIsAtBarrier, kHasEnded };
struct Thread {
  ThreadState state = ThreadState::kRuns;
  Fiber* fiber = nullptr;  // from its begin to its end
};
struct Block {
  std::vector<Thread> threads;
  bool has_ended = false;
};

HostGrid grid;
Block* running;
ucontext_t scheduler;
void (*kernel_of_threads)(void**);
void** arguments_of_threads;
uint64_t moves;  // to a barrier, or to the end
std::vector<std::unique_ptr<Fiber>> all_fibers;
std::vector<Fiber*> idle_fibers;

void RunThreads();

Fiber* NewFiber() {
  Fiber* fiber = all_fibers.emplace_back(new Fiber).get();
  ::getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.data();
  fiber->context.uc_stack.ss_size = fiber->stack.size();
  fiber->context.uc_link = nullptr;
  ::makecontext(&fiber->context, RunThreads, 0);
  return fiber;
}
Fiber* IdleFiber() {
  if (idle_fibers.empty()) return NewFiber();
  Fiber* fiber = idle_fibers.back();
  idle_fibers.pop_back();
  return fiber;
}

Thread& CurrentThread() { return running->threads[grid.thread.x]; }

// Goes on with the block's next thread that runs, or with the scheduler after the last. Each switch
// costs a system call, so a fiber that has ended its thread goes on itself.
void GiveTurn(ucontext_t& from) {
  const auto count = static_cast<unsigned>(running->threads.size());
  do {
    ++grid.thread.x;
  } while (grid.thread.x < count && CurrentThread().state != ThreadState::kRuns);
  ucontext_t* to = &scheduler;
  if (grid.thread.x < count) {
    Thread& next = CurrentThread();
    if (next.fiber == nullptr) next.fiber = IdleFiber();
    to = &next.fiber->context;
  }
  if (to != &from) ::swapcontext(&from, to);
}

void EnterState(ThreadState state) {
  CurrentThread().state = state;
  ++moves;
}

void GiveTurnToOthers() { GiveTurn(CurrentThread().fiber->context); }
void WaitAtBarrier() {
  EnterState(ThreadState::kIsAtBarrier);
  GiveTurnToOthers();
}

void RunThreads() {
  for (;;) {
    kernel_of_threads(arguments_of_threads);
    EnterState(ThreadState::kHasEnded);
    Fiber* own = std::exchange(CurrentThread().fiber, nullptr);
    idle_fibers.push_back(own);
    GiveTurn(own->context);
  }
}

unsigned CountOf(const Block& block, ThreadState state) {
  unsigned count = 0;
  for (const Thread& thread : block.threads) count += thread.state == state;
  return count;
}

// Up to the end, or to where it waits for other blocks.
void RunBlock(Block& block) {
  const auto threads = static_cast<unsigned>(block.threads.size());
  running = &block;
  for (bool is_stuck = false; !is_stuck;) {
    const auto before = moves;
    grid.thread.x = ~0U;
    GiveTurn(scheduler);
    const unsigned ended = CountOf(block, ThreadState::kHasEnded);
    block.has_ended = ended == threads;
    if (block.has_ended) return;
    is_stuck = moves == before;
    if (ended + CountOf(block, ThreadState::kIsAtBarrier) < threads) continue;
    if (ended > 0) {
      std::fprintf(stderr, "%u of %u threads never come to a barrier\n", ended, threads);
      std::abort();
    }
    for (Thread& thread : block.threads) thread.state = ThreadState::kRuns;
    ++grid.barriers;
    is_stuck = false;
  }
}

}  // namespace

HostGrid& TheHostGrid() {
  grid.barrier = WaitAtBarrier;
  grid.give_turn = GiveTurnToOthers;
  return grid;
}

void RunGrid(void (*kernel)(void**), void** arguments, unsigned blocks, unsigned threads) {
  kernel_of_threads = kernel;
  arguments_of_threads = arguments;
  grid.blocks.x = blocks;
  std::vector<Block> begun(blocks);
  unsigned ended = 0;
  for (int idle_turns = 0; ended < blocks;) {
    const auto before = moves;
    for (grid.block.x = 0; grid.block.x < blocks; ++grid.block.x) {
      Block& block = begun[grid.block.x];
      if (block.has_ended) continue;
      block.threads.resize(threads);
      RunBlock(block);
      ended += block.has_ended;
    }
    idle_turns = moves == before ? idle_turns + 1 : 0;
    if (idle_turns < 8) continue;
    std::fprintf(stderr, "%u of %u blocks wait for ever\n", blocks - ended, blocks);
    std::abort();
  }
}

}  // namespace kiln::graph
