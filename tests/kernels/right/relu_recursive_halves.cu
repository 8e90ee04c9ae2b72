// problem: relu
// assay: launch relu_halves grid=(ceil_div(n, 16 * 64)) block=(64) args=(x, y, n)
// style: a recursive device function halves a thread's range of sixteen until one element is left
__device__ __noinline__ void halves(const float* x, float* y, int begin, int end)
{
    if (end - begin <= 0) return;
    if (end - begin == 1) {
        y[begin] = x[begin] < 0.0f ? 0.0f : x[begin];
        return;
    }
    const int middle = begin + (end - begin) / 2;
    halves(x, y, begin, middle);
    halves(x, y, middle, end);
}

__global__ void relu_halves(const float* x, float* y, int n)
{
    const int begin = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
    halves(x, y, begin, min(begin + 16, n));
}
