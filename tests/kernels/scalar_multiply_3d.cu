// problem: scalar_multiply
// style: three-dimensional grid and block, flattened by hand
// assay: launch scale_cube grid=(ceil_div(n, 64 * 2 * 3), 2, 3) block=(4, 4, 4) args=(x, y, alpha, n)

__global__ void scale_cube(const float* x, float* y, float alpha, int n)
{
    const long long block = (blockIdx.z * (long long)gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const long long i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    if (i < n) {
        y[i] = x[i] * alpha;
    }
}
