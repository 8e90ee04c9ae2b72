// problem: relu
// style: scratch memory from the device heap, taken and given back by every thread, and a block that is kept for good
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ float* kept = nullptr;

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0 && kept == nullptr) {
        kept = static_cast<float*>(malloc(40));
        if (kept != nullptr) kept[9] = 0.0f;
    }
    if (i >= n) return;
    float* mine = static_cast<float*>(malloc(60));
    if (mine == nullptr) {
        y[i] = fmaxf(x[i], 0.0f);
        return;
    }
    mine[14] = x[i];
    y[i] = fmaxf(mine[14], 0.0f);
    if (i == 0 && kept != nullptr) y[i] += kept[9];
    free(mine);
    free(nullptr);
}
