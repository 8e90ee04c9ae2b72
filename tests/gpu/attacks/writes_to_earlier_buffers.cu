// problem: relu
// attack: remembers the pointers of every launch and writes to the buffers of the earlier ones
// expect: rejected|runtime_error|incorrect
// because: what lies there now is an input, an output or a guard, and all of them are looked at
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch spoil grid=(1) block=(1) args=(x, y)

__device__ const float* inputs[4096];
__device__ float* outputs[4096];
__device__ int launches;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void spoil(const float* x, float* y)
{
    for (int j = 0; j < launches; ++j) {
        ((float*)inputs[j])[0] = 77.0f;
        outputs[j][0] = 77.0f;
    }
    if (launches < 4096) {
        inputs[launches] = x;
        outputs[launches++] = y;
    }
}
