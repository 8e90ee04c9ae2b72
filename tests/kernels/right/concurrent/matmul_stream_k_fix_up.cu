// problem: matmul
// assay: temp part float32 (48 * 256)
// assay: temp flag int32 (48)
// assay: fill flag value=0
// assay: launch mm grid=(48) block=(16, 16) cooperative args=(a, b, c, part, flag, m, n, k)
// style: stream-K: a block has an equal share of all steps of all tiles; who has a tile's first step adds what later blocks left, behind their flags
#include <cuda/atomic>
using flag_ref = cuda::atomic_ref<int, cuda::thread_scope_device>;

__global__ void mm(const float* a, const float* b, float* c, float* part, int* flag, int m, int n, int k)
{
    __shared__ float as[16][17], bs[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, me = ty * 16 + tx;
    const long long steps = (k + 15) / 16, across = (n + 15) / 16, all = steps * across * ((m + 15) / 16);
    const long long each = (all + gridDim.x - 1) / gridDim.x;
    long long at = blockIdx.x * each;
    const long long end = min(all, at + each);
    while (at < end) {
        const long long tile = at / steps, stop = min(end, (tile + 1) * steps), first = tile * steps;
        const int row = (int)(tile / across) * 16 + ty, col = (int)(tile % across) * 16 + tx;
        float s = 0.0f;
        for (long long step = at; step < stop; ++step) {
            const int l = (int)(step - first) * 16;
            as[ty][tx] = row < m && l + tx < k ? a[(size_t)row * k + l + tx] : 0.0f;
            bs[ty][tx] = col < n && l + ty < k ? b[(size_t)(l + ty) * n + col] : 0.0f;
            __syncthreads();
            for (int q = 0; q < 16; ++q) s += as[ty][q] * bs[q][tx];
            __syncthreads();
        }
        if (at != first) {
            part[blockIdx.x * 256 + me] = s;
            __syncthreads();
            if (me == 0) flag_ref(flag[blockIdx.x]).store(1, cuda::memory_order_release);
        } else {
            for (long long reached = stop; reached < first + steps; reached += each) {
                const int other = (int)(reached / each);
                if (me == 0)
                    while (!flag_ref(flag[other]).load(cuda::memory_order_acquire)) __nanosleep(64);
                __syncthreads();
                s += part[other * 256 + me];
            }
            if (row < m && col < n) c[(size_t)row * n + col] = s;
        }
        at = stop;
    }
}
