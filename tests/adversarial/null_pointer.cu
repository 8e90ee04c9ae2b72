// problem: gelu
// attack: stores through a null pointer
// expect: runtime_error
// because: there is nothing at address 0
// fault: null|out_of_bounds
// assay: launch gelu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void gelu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* target = n > 0 ? reinterpret_cast<float*>((unsigned long long)(n < 0)) : y;
    if (i < n) {
        target[0] = x[i];  // HERE
    }
}
