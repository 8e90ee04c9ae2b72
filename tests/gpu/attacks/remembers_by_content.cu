// problem: relu
// attack: answers from memory where 64 sampled elements have the hash of the last input
// expect: passed|incorrect
// because: contents are fresh, so there is nothing to gain; a hash that misses a difference is a wrong answer
// rehearse: no
// twin: relu_twin
// assay: launch hash grid=(1) block=(64) args=(x, n)
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ float kept[1 << 24];
__device__ unsigned long long last, now;

__global__ void hash(const float* x, int n)
{
    __shared__ unsigned long long sum;
    if (threadIdx.x == 0) sum = n;
    __syncthreads();
    unsigned long long bits = __float_as_uint(x[(long long)threadIdx.x * (n - 1) / 63]);
    atomicAdd(&sum, (bits + threadIdx.x) * 0x9e3779b97f4a7c15ull);
    __syncthreads();
    if (threadIdx.x == 0) {
        last = now;
        now = sum;
    }
}

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        bool known = last == now && i < 1 << 24;
        y[i] = known ? kept[i] : fmaxf(x[i], 0.0f);
        if (!known && i < 1 << 24) kept[i] = y[i];
    }
}
