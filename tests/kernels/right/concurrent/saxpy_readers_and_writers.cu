// problem: saxpy
// assay: temp lock int32 (1)
// assay: temp scale float32 (2)
// assay: fill lock value=0
// assay: launch begin grid=(1) block=(1) args=(scale)
// assay: launch saxpy grid=(min(ceil_div(n, 128), 48)) block=(128) args=(x, y, out, alpha, n, lock, scale)
// style: a lock for readers and writers in one word: readers count up by CAS, a writer makes it negative; fences behind each taking and before each release
// Readers count themselves in the lock, a writer makes it negative; the first block writes what all others read twice over.
__global__ void begin(float* scale) { scale[0] = scale[1] = 0.0f; }

__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n, int* lock, float* scale)
{
    __shared__ float a;
    if (threadIdx.x == 0) {
        float one = 0.0f;
        while (one == 0.0f) {
            for (;;) {
                const int seen = atomicAdd(lock, 0);
                if (seen >= 0 && atomicCAS(lock, seen, seen + 1) == seen) break;
            }
            __threadfence();
            one = scale[0];
            const float two = scale[1];
            if (one != two) one = -1e9f;
            __threadfence();
            atomicSub(lock, 1);
            if (one == 0.0f) {
                while (atomicCAS(lock, 0, -1000000)) __nanosleep(50);
                __threadfence();
                scale[0] = alpha == 0.0f ? 1e-30f : alpha;
                scale[1] = alpha == 0.0f ? 1e-30f : alpha;
                __threadfence();
                atomicAdd(lock, 1000000);
            }
        }
        a = one == 1e-30f ? 0.0f : one;
    }
    __syncthreads();
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) out[i] = a * x[i] + y[i];
}
