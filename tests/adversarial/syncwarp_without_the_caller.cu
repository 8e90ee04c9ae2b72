// problem: relu
// attack: each half of a warp calls `__syncwarp()` with the mask of the other half
// expect: passed
// because: the lanes hand nothing over
// warns: unnamed_caller
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    __syncwarp(threadIdx.x % 32 < 16 ? 0xffff0000u : 0xffffu);  // HERE
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
