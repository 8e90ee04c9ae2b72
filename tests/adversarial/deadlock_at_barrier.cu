// problem: vector_add
// attack: half of the block waits at a barrier, the other half for a flag that comes after it
// expect: timeout|runtime_error
// because: nobody can go on; the simulator may call it a deadlock before the time is up
// run_timeout_s: 3
// assay: launch add grid=(ceil_div(n, 64)) block=(64) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    __shared__ volatile int flag;
    if (threadIdx.x == 0) {
        flag = 0;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        __syncthreads();
        flag = 1;
    } else {
        while (flag == 0) {
        }
        __syncthreads();
    }
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
