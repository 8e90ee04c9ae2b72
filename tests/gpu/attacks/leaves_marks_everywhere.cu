// problem: relu
// attack: leaves marks in shared memory, in module memory and beyond its buffers, for the next job to find
// expect: runtime_error
// because: the marks behind the buffers are outside of them
// rehearse: no
// timing: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
// assay: launch mark grid=(1) block=(1024) args=(y, n)

__device__ unsigned marks[1 << 20];

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void mark(float* y, int n)
{
    for (int i = threadIdx.x; i < 1 << 20; i += 1024) {
        marks[i] = 0x5ec2e7a5u;
        // Behind the guard that follows the last buffer; memory is mapped in steps of powers of two.
        if (n < 1 << 20) ((unsigned*)(y + n))[(3 << 18) + i] = 0x5ec2e7a5u;
    }
}
