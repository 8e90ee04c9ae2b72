// problem: softmax
// assay: temp lock int32 (rows)
// assay: temp state float32 (2 * rows)
// assay: fill lock value=0
// assay: launch begin grid=(rows) block=(1) args=(state)
// assay: launch merge grid=(rows, 4) block=(64) args=(x, lock, state, cols)
// assay: launch put grid=(rows) block=(128) args=(x, state, y, cols)
// style: maximum and sum of a row are merged by plain accesses under the row's lock: CAS, __threadfence(), merge, __threadfence(), exchange
__global__ void begin(float* state)
{
    state[2 * blockIdx.x] = -INFINITY;
    state[2 * blockIdx.x + 1] = 0.0f;
}

__global__ void merge(const float* x, int* lock, float* state, int cols)
{
    __shared__ float s[64];
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 256) top = fmaxf(top, in[c]);
    s[threadIdx.x] = top;
    for (int h = 32; h; h >>= 1) {
        __syncthreads();
        if (threadIdx.x < h) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + h]);
    }
    __syncthreads();
    top = s[0];
    __syncthreads();
    if (top == -INFINITY) return;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 256) sum += expf(in[c] - top);
    s[threadIdx.x] = sum;
    for (int h = 32; h; h >>= 1) {
        __syncthreads();
        if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    }
    if (threadIdx.x) return;
    while (atomicCAS(lock + blockIdx.x, 0, 1)) __nanosleep(40);
    __threadfence();
    const float before = state[2 * blockIdx.x], all = fmaxf(before, top);
    state[2 * blockIdx.x + 1] = state[2 * blockIdx.x + 1] * expf(before - all) + s[0] * expf(top - all);
    state[2 * blockIdx.x] = all;
    __threadfence();
    atomicExch(lock + blockIdx.x, 0);
}

__global__ void put(const float* x, const float* state, float* y, int cols)
{
    const float top = state[2 * blockIdx.x], sum = state[2 * blockIdx.x + 1];
    for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = expf(x[(size_t)blockIdx.x * cols + c] - top) / sum;
}
