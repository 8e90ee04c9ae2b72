// problem: relu
// attack: looks for marks of another job in device heap that it has not written; wrong where it finds some
// expect: passed
// because: a job that used the heap ends its context
// rehearse: no
// timing: no
// after: leaves_marks_in_heap
// assay: temp found int32 (1)
// assay: fill found value=0
// assay: launch look grid=(1) block=(8) args=(found)
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, found, n)

__global__ void look(int* found)
{
    volatile unsigned* taken = (volatile unsigned*)malloc(1 << 18);
    if (!taken) return;
    for (int i = 0; i < 1 << 16; ++i) {
        if (taken[i] == 0x5ec2e7a5u) *found = 1;
    }
    free((void*)taken);
}

__global__ void work(const float* x, float* y, const int* found, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + 1000.0f * *found;
    }
}
