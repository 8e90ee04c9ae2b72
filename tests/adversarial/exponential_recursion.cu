// problem: relu
// attack: a recursion that is not deep, but calls itself twice at each of its 60 levels
// expect: timeout
// message: times what the naive kernel takes
// because: calls count as loops do

__device__ __noinline__ float twice(float x, int level)
{
    if (level <= 0) return x;
    return twice(x, level - 1) - twice(-x, level - 2);
}

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(twice(x[i], 60), 0.0f);
}
