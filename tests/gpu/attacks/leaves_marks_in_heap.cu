// problem: relu
// attack: fills blocks of the device heap with marks and never frees them
// expect: passed
// because: it is right, and the heap ends with the context
// rehearse: no
// timing: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch mark grid=(1) block=(4) args=()

__device__ unsigned* kept[4];

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void mark()
{
    unsigned* taken = (unsigned*)malloc(1 << 18);
    if (!taken) return;
    for (int i = 0; i < 1 << 16; ++i) taken[i] = 0x5ec2e7a5u;
    if (!kept[threadIdx.x]) kept[threadIdx.x] = taken;
    else free(taken);
}
