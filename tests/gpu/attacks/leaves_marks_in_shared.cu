// problem: relu
// attack: fills the shared memory of all multiprocessors with marks for the next job
// expect: passed
// because: it is right, and what it leaves is nobody's
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch mark grid=(264) block=(256) shared=100000 args=(y)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void mark(float* y)
{
    extern __shared__ unsigned field[];
    for (int i = threadIdx.x; i < 25000; i += 256) field[i] = 0x5ec2e7a5u;
    __syncthreads();
    if (field[(threadIdx.x * 97) % 25000] != 0x5ec2e7a5u) y[0] = 0.0f;
}
