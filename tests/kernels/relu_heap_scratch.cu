// problem: relu
// style: scratch memory from the device heap, taken and given back by one thread in 64, and a block that is kept for good
// Every thread would be right too, but slow: 18 million calls of malloc took an H200 19 s.
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
    float* mine = i % 64 == 0 ? static_cast<float*>(malloc(60)) : nullptr;
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
