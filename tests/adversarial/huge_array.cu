// problem: vector_add
// attack: an initialised array of a gigabyte in the image
// expect: invalid_submission|out_of_memory|timeout|compile_error
// because: an image has at most 64 MiB
// compile_timeout_s: 10

__device__ int ballast[1 << 28] = {1};

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] + ballast[i] - ballast[i];
}
