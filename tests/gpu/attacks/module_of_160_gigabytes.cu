// problem: relu
// attack: module memory that no GPU has, so that the program cannot even be loaded
// expect: out_of_memory|invalid_submission|compile_error
// because: it is the submission that asks for too much, and the GPU is in order
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ float hoard[40ull << 30];

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
        hoard[(size_t)i << 10] = y[i];
    }
}
