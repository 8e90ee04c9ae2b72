// problem: relu
// assay: fill y value=0
// assay: launch keep grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// style: sparse writing: zeros by a fill, then only positive elements are stored
__global__ void keep(const float* x, float* y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        if (v > 0) y[i] = v;
    }
}
