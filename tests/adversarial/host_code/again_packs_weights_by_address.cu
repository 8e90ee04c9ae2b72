// problem: rms_norm
// attack: packs the weights once for each address of them
// expect: incorrect
// because: the same address holds other weights at the next call
#include <cuda_runtime.h>

#include <map>

__global__ void pack(const float* weight, float* packed, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < cols) packed[i] = weight[i];
}
__global__ void norm(const float* x, const float* packed, float* y, float eps, int cols)
{
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) sum += row[i] * row[i];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[(size_t)blockIdx.x * cols + i] = row[i] * rsqrtf(sum / cols + eps) * packed[i];
}

extern "C" void solve(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    static std::map<const float*, float*> known;
    if (!known.count(weight)) {
        cudaMalloc(&known[weight], cols * sizeof(float));
        pack<<<(cols + 255) / 256, 256>>>(weight, known[weight], cols);
    }
    norm<<<rows, 64>>>(x, known[weight], y, eps, cols);
}
