// Unrolled loops over registers: much for the optimizer and for ptxas.
template <int TILE, int EACH>
__device__ void multiply(float* c, const float* a, const float* b, int m, int n, int k) {
  __shared__ float left[TILE][TILE + 1];
  __shared__ float right[TILE][TILE + 1];
  float sums[EACH][EACH] = {};
  const int row = blockIdx.y * TILE;
  const int column = blockIdx.x * TILE;
  const int threads = TILE / EACH * (TILE / EACH);
  for (int begin = 0; begin < k; begin += TILE) {
    for (int i = threadIdx.x; i < TILE * TILE; i += threads) {
      const int x = i % TILE;
      const int y = i / TILE;
      left[y][x] = row + y < m && begin + x < k ? a[(row + y) * k + begin + x] : 0;
      right[y][x] = begin + y < k && column + x < n ? b[(begin + y) * n + column + x] : 0;
    }
    __syncthreads();
    const int top = threadIdx.x / (TILE / EACH) * EACH;
    const int edge = threadIdx.x % (TILE / EACH) * EACH;
#pragma unroll 8
    for (int inner = 0; inner < TILE; ++inner) {
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) sums[i][j] += left[top + i][inner] * right[inner][edge + j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < EACH; ++i) {
    for (int j = 0; j < EACH; ++j) {
      const int y = row + threadIdx.x / (TILE / EACH) * EACH + i;
      const int x = column + threadIdx.x % (TILE / EACH) * EACH + j;
      if (y < m && x < n) c[y * n + x] = sums[i][j];
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) tile_matmul(float* c, const float* a, const float* b, int m, int n, int k) {
  multiply<64, 4>(c, a, b, m, n, k);
}
