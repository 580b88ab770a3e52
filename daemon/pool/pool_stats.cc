#include "daemon/pool/pool_stats.h"

namespace kiln {

PoolCounters& PoolCounters::operator+=(const PoolCounters& other) {
  started += other.started;
  killed += other.killed;
  crashed += other.crashed;
  aborted += other.aborted;
  idled += other.idled;
  zygotes_replaced += other.zygotes_replaced;
  compiles += other.compiles;
  compile_cpu_micros += other.compile_cpu_micros;
  return *this;
}

}  // namespace kiln
