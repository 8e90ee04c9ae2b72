// problem: rms_norm
// style: a small table from a std::vector on the host
#include <cuda_runtime.h>
#include <vector>

__global__ void rms_norm(const float* x, const float* weight, float* y, float eps, int cols, const int* steps, int many)
{
    __shared__ float part[128];
    const float* row = x + (size_t)blockIdx.x * cols;
    float mine = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) mine += row[c] * row[c];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int i = 0; i < many; ++i) {
        if (threadIdx.x < steps[i]) part[threadIdx.x] += part[threadIdx.x + steps[i]];
        __syncthreads();
    }
    float scale = rsqrtf(part[0] / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = row[c] * scale * weight[c];
}

extern "C" void solve(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    std::vector<int> steps;
    for (int step = 64; step > 0; step /= 2) steps.push_back(step);
    int* table;
    cudaMalloc(&table, steps.size() * sizeof(int));
    cudaMemcpy(table, steps.data(), steps.size() * sizeof(int), cudaMemcpyHostToDevice);
    rms_norm<<<rows, 128>>>(x, weight, y, eps, cols, table, (int)steps.size());
    cudaFree(table);
}
