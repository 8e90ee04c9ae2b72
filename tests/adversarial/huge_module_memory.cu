// problem: vector_add
// attack: uninitialised module memory of 200 GB
// expect: invalid_submission|out_of_memory|compile_error|unsupported
// because: device memory has a limit

__device__ float hoard[50ull << 30];

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] + 0.0f * hoard[(size_t)i * 4096];
}
