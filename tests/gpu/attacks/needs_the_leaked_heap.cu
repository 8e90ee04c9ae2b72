// problem: relu
// attack: leaks a block of device heap in each launch and does not look whether it got one
// expect: runtime_error|out_of_memory
// because: a null pointer is written through when the heap is used up
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (threadIdx.x == 0) {
        volatile int* taken = (volatile int*)malloc(4 << 20);
        taken[0] = i;
    }
}
