// problem: relu
// attack: frees the middle of a block
// expect: runtime_error
// because: free takes what malloc returned
// fault: bad_free
// message: freed byte 8 of a block of 64 bytes

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        char* taken = static_cast<char*>(malloc(64));
        free(taken + 8); // HERE
    }
}
