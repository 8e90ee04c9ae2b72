// problem: softmax
// assay: temp tops int32 (rows)
// assay: temp sums float32 (rows)
// assay: fill tops value=-2147483648
// assay: fill sums value=0
// assay: launch find grid=(rows, ceil_div(cols, 4096)) block=(128) args=(x, tops, cols)
// assay: launch add grid=(rows, ceil_div(cols, 4096)) block=(128) args=(x, tops, sums, cols)
// assay: launch put grid=(rows, ceil_div(cols, 4096)) block=(128) args=(x, tops, sums, y, cols)
// style: atomicMax on floats mapped to integers in their order, atomicAdd of the sums, three launches
__device__ int ordered(float v)
{
    const int b = __float_as_int(v);
    return b >= 0 ? b : b ^ 0x7fffffff;
}
__device__ float back(int b) { return __int_as_float(b >= 0 ? b : b ^ 0x7fffffff); }

__global__ void find(const float* x, int* tops, int cols)
{
    float top = -INFINITY;
    for (int c = blockIdx.y * 4096 + threadIdx.x; c < min(cols, (int)(blockIdx.y + 1) * 4096); c += 128) top = fmaxf(top, x[(size_t)blockIdx.x * cols + c]);
    const int all = __reduce_max_sync(~0u, ordered(top));
    if (threadIdx.x % 32 == 0) atomicMax(&tops[blockIdx.x], all);
}

__global__ void add(const float* x, const int* tops, float* sums, int cols)
{
    const float top = back(tops[blockIdx.x]);
    float s = 0.0f;
    for (int c = blockIdx.y * 4096 + threadIdx.x; c < min(cols, (int)(blockIdx.y + 1) * 4096); c += 128) s += expf(x[(size_t)blockIdx.x * cols + c] - top);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) atomicAdd(&sums[blockIdx.x], s);
}

__global__ void put(const float* x, const int* tops, const float* sums, float* y, int cols)
{
    const float top = back(tops[blockIdx.x]), sum = sums[blockIdx.x];
    for (int c = blockIdx.y * 4096 + threadIdx.x; c < min(cols, (int)(blockIdx.y + 1) * 4096); c += 128)
        y[(size_t)blockIdx.x * cols + c] = expf(x[(size_t)blockIdx.x * cols + c] - top) / sum;
}
