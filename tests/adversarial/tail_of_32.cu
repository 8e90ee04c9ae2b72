// problem: vector_add
// attack: leaves out what lies beyond the last multiple of 32
// expect: incorrect
// because: hidden sizes are odd, prime, and one off a multiple of 32
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 32 * 32) {
        c[i] = a[i] + b[i];
    }
}
