// problem: relu
// attack: takes the same pointers for the same input, and answers from memory
// expect: incorrect
// because: the buffers stay where they are and the contents change
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch note grid=(1) block=(1) args=(x, n)

__device__ float kept[1 << 24];
__device__ const float* of_x;
__device__ int of_n;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        bool known = of_x == x && of_n == n && i < 1 << 24;
        y[i] = known ? kept[i] : fmaxf(x[i], 0.0f);
        if (!known && i < 1 << 24) kept[i] = y[i];
    }
}

__global__ void note(const float* x, int n)
{
    of_x = x;
    of_n = n;
}
