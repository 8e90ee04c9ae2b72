// problem: relu
// attack: frees a block twice
// expect: runtime_error
// because: the second time it is not the caller's any more
// fault: bad_free
// message: freed a block of 64 bytes twice

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        char* taken = static_cast<char*>(malloc(64));
        free(taken);
        free(taken); // HERE
    }
}
