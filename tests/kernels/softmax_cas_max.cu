// problem: softmax
// style: a float maximum in global memory by a compare-and-swap loop, onto a temporary that a fill has lowered
// assay: temp tops float32 (rows)
// assay: temp sums float32 (rows)
// assay: fill tops value=-3.4028234e38
// assay: fill sums value=0
// assay: launch raise_tops grid=(rows, ceil_div(cols, 256)) block=(64) args=(x, tops, cols)
// assay: launch add_exponentials grid=(rows, ceil_div(cols, 64)) block=(64) args=(x, tops, sums, y, cols)
// assay: launch divide grid=(rows, ceil_div(cols, 64)) block=(64) args=(sums, y, cols)

__device__ void atomic_max(float* address, float value)
{
    int* word = (int*)address;
    int seen = atomicOr(word, 0);
    while (__int_as_float(seen) < value) {
        const int before = seen;
        seen = atomicCAS(word, before, __float_as_int(value));
        if (seen == before) {
            break;
        }
    }
}

__global__ void raise_tops(const float* x, float* tops, int cols)
{
    const int first = blockIdx.y * 256 + threadIdx.x;
    if (first >= cols) {
        return;
    }
    float top = x[(size_t)blockIdx.x * cols + first];
    for (int col = first + 64; col < min(cols, (int)(blockIdx.y + 1) * 256); col += 64) {
        top = fmaxf(top, x[(size_t)blockIdx.x * cols + col]);
    }
    atomic_max(tops + blockIdx.x, top);
}

__global__ void add_exponentials(const float* x, const float* tops, float* sums, float* y, int cols)
{
    const int col = blockIdx.y * 64 + threadIdx.x;
    float e = 0.0f;
    if (col < cols) {
        e = expf(x[(size_t)blockIdx.x * cols + col] - tops[blockIdx.x]);
        y[(size_t)blockIdx.x * cols + col] = e;
    }
    for (int offset = 16; offset; offset >>= 1) {
        e += __shfl_down_sync(0xffffffffu, e, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(sums + blockIdx.x, e);
    }
}

__global__ void divide(const float* sums, float* y, int cols)
{
    const int col = blockIdx.y * 64 + threadIdx.x;
    if (col < cols) {
        y[(size_t)blockIdx.x * cols + col] /= sums[blockIdx.x];
    }
}
