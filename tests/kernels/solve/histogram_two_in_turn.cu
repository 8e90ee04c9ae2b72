// problem: histogram
// style: two rows of counters that calls take in turn; each call zeroes the row of the next one
#include <cuda_runtime.h>

__global__ void count(const int* x, unsigned* mine, unsigned* next, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(mine + x[i], 1u);
    if (blockIdx.x == 0) next[threadIdx.x] = 0;
}
__global__ void give(const unsigned* mine, int* counts) { counts[threadIdx.x] = (int)mine[threadIdx.x]; }

extern "C" void solve(const int* values, int* counts, int n)
{
    static unsigned* rows[2];
    static int turn = 0;
    if (!rows[0]) {
        for (auto& row : rows) {
            cudaMalloc(&row, 256 * sizeof(unsigned));
            cudaMemset(row, 0, 256 * sizeof(unsigned));
        }
    }
    unsigned *mine = rows[turn], *next = rows[turn ^ 1];
    turn ^= 1;
    count<<<16, 256>>>(values, mine, next, n);
    give<<<1, 256>>>(mine, counts);
}
