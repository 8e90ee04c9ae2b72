// problem: row_sum
// style: counters of arrivals for each row, zeroed when they are allocated and reset by the last block; room that grows
#include <cuda_runtime.h>

__global__ void row_sums(const float* x, float* parts, unsigned* arrived, float* y, int cols)
{
    __shared__ float held[64];
    const int row = blockIdx.y;
    float mine = 0.0f;
    for (int c = blockIdx.x * 64 + threadIdx.x; c < cols; c += 64 * gridDim.x) mine += x[(size_t)row * cols + c];
    held[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x != 0) return;
    float sum = 0.0f;
    for (int i = 0; i < 64; ++i) sum += held[i];
    parts[row * gridDim.x + blockIdx.x] = sum;
    __threadfence();
    if (atomicAdd(arrived + row, 1u) != gridDim.x - 1) return;
    __threadfence();
    float all = 0.0f;
    for (unsigned b = 0; b < gridDim.x; ++b) all += __ldcg(parts + row * gridDim.x + b);
    y[row] = all;
    arrived[row] = 0;
}

struct Workspace {
    int room = 0;
    float* parts = nullptr;
    unsigned* arrived = nullptr;
    void make_room(int rows)
    {
        if (rows <= room) return;
        cudaFree(parts);
        cudaFree(arrived);
        cudaMalloc(&parts, 2 * rows * sizeof(float));
        cudaMalloc(&arrived, rows * sizeof(unsigned));
        cudaMemset(arrived, 0, rows * sizeof(unsigned));
        room = rows;
    }
};

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    static Workspace workspace;
    workspace.make_room(rows);
    row_sums<<<dim3(2, rows), 64>>>(x, workspace.parts, workspace.arrived, y, cols);
}
