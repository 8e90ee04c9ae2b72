// problem: row_sum
// style: a workspace that is kept over calls and made larger where a call needs more; a grid that is kept by size
#include <cuda_runtime.h>

#include <map>

__global__ void pieces(const float* x, float* partial, int cols, int many)
{
    const int row = blockIdx.y;
    float sum = 0.0f;
    const int each = (cols + many - 1) / many, end = min(cols, (blockIdx.x + 1) * each);
    for (int i = blockIdx.x * each + threadIdx.x; i < end; i += 32) sum += x[(size_t)row * cols + i];
    for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffff, sum, half);
    if (threadIdx.x == 0) partial[row * many + blockIdx.x] = sum;
}
__global__ void finish(const float* partial, float* y, int rows, int many)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < many; ++i) sum += partial[row * many + i];
    y[row] = sum;
}

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    static std::map<int, int> pieces_of;
    static float* partial = nullptr;
    static size_t room = 0;
    if (!pieces_of.count(cols)) pieces_of[cols] = cols < 512 ? 1 : 4;
    const int many = pieces_of[cols];
    if (const size_t needed = (size_t)rows * many; needed > room) {
        cudaFree(partial);
        cudaMalloc(&partial, needed * sizeof(float));
        room = needed;
    }
    pieces<<<dim3(many, rows), 32>>>(x, partial, cols, many);
    finish<<<(rows + 127) / 128, 128>>>(partial, y, rows, many);
}
