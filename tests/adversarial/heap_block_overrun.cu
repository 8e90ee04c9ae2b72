// problem: relu
// attack: writes behind a block of the heap
// expect: runtime_error
// because: the next block may be anyone's
// fault: out_of_bounds
// message: behind the end of a block of 64 bytes

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        volatile float* taken = static_cast<float*>(malloc(64));
        volatile float* next = static_cast<float*>(malloc(64));
        next[0] = 0.0f;
        taken[16] = 1.0f; // HERE
        free((void*)taken);
        free((void*)next);
    }
}
