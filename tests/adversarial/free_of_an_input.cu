// problem: relu
// attack: frees an input
// expect: runtime_error
// because: free takes what malloc returned
// fault: bad_free
// message: freed a pointer into x, which malloc did not return

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        free((void*)x); // HERE
    }
}
