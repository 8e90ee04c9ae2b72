// problem: relu
// attack: is wrong in launches that begin in an odd microsecond of the GPU's clock
// expect: incorrect
// because: that is so in about half of all runs, and each of them is checked
// rehearse: no
// assay: launch look grid=(1) block=(1) args=()
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ int odd;

__global__ void look()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    odd = (int)((now >> 10) ^ clock64()) & 1;
}

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && (!odd || i % 2)) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
