// problem: relu
// attack: answers with what it computed in the launch before, where the size is the same
// expect: incorrect
// because: no two timed launches have the same content
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(n)

__device__ float kept[1 << 24];
__device__ int kept_n;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        float fresh = fmaxf(x[i], 0.0f);
        y[i] = kept_n == n && i < 1 << 24 ? kept[i] : fresh;
        if (i < 1 << 24) kept[i] = fresh;
    }
}

__global__ void note(int n)
{
    kept_n = n;
}
