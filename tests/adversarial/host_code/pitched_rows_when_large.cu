// problem: transpose
// attack: copies rows into memory of cudaMallocPitch, where each row is a step of a plan
// expect: unsupported
// because: that is right, and a plan has room for so many steps only
// message: cudaMemcpy2DAsync for
#include <cuda_runtime.h>

__global__ void transpose(const char* x, size_t pitch, float* y, int rows, int cols)
{
    const int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
    if (c < cols && r < rows) y[(size_t)c * rows + r] = ((const float*)(x + r * pitch))[c];
}

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    void* padded;
    size_t pitch;
    cudaMallocPitch(&padded, &pitch, cols * sizeof(float), rows);
    cudaMemcpy2DAsync(padded, pitch, x, cols * sizeof(float), cols * sizeof(float), rows, cudaMemcpyDeviceToDevice);
    const dim3 grid((cols + 15) / 16, (rows + 15) / 16);
    transpose<<<grid, dim3(16, 16)>>>((char*)padded, pitch, y, rows, cols);
    cudaFree(padded);
}
