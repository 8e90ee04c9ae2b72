// problem: relu
// attack: reads what it freed
// expect: runtime_error
// because: freed memory may be anyone's
// fault: use_after_free
// message: of freed memory

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        volatile float* taken = static_cast<float*>(malloc(64));
        taken[0] = 0.0f;
        free((void*)taken);
        y[0] += taken[0]; // HERE
    }
}
