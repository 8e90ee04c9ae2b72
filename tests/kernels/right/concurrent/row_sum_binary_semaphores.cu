// problem: row_sum
// assay: temp room int64 (rows * 2)
// assay: fill y value=0
// assay: launch make grid=(ceil_div(rows, 128)) block=(128) args=(room, rows)
// assay: launch add grid=(rows, 3) block=(64) args=(x, y, room, cols)
// style: libcu++ semaphores in global memory: a launch makes them, the next one acquires and releases one for each row
#include <cuda/semaphore>
#include <new>
using semaphore = cuda::binary_semaphore<cuda::thread_scope_device>;
static_assert(sizeof(semaphore) <= 16, "two words are kept for each");

__global__ void make(long long* room, int rows)
{
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row < rows) new (room + 2 * row) semaphore(1);
}

__global__ void add(const float* x, float* y, long long* room, int cols)
{
    __shared__ float other;
    const size_t row = blockIdx.x;
    float s = 0.0f;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 192) s += x[row * cols + c];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x == 32) other = s;
    __syncthreads();
    if (threadIdx.x) return;
    semaphore& turn = *reinterpret_cast<semaphore*>(room + 2 * row);
    turn.acquire();
    y[row] += s + other;
    turn.release();
}
