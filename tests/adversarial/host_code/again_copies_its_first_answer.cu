// problem: vector_add
// attack: computes once, and copies that answer from then on
// expect: incorrect|runtime_error|invalid_submission
// because: the later calls are judged, where nothing computes it
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static float* kept = nullptr;
    if (!kept) {
        cudaMalloc(&kept, n * sizeof(float));
        add<<<(n + 255) / 256, 256>>>(a, b, kept, n);
    }
    cudaMemcpy(c, kept, n * sizeof(float), cudaMemcpyDeviceToDevice);
}
