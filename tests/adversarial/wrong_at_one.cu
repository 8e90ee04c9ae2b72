// problem: scalar_multiply
// attack: right for every size but 1
// expect: incorrect
// because: 1 is always among the hidden sizes

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = n == 1 ? x[i] : alpha * x[i];
    }
}
