// problem: scalar_multiply
// attack: stores to an address made of thin air, where the grader's own memory might be
// expect: runtime_error
// because: nothing of the grader is reachable, and the address is in no buffer
// assay: launch scale grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = alpha * x[i];
        *reinterpret_cast<volatile float*>(0x7f0000000000ull + 4ull * i) = 1.0f;  // HERE
    }
}
