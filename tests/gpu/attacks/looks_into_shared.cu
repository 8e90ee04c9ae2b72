// problem: relu
// attack: looks for marks of another job in shared memory that it has not written; wrong where it finds some
// expect: passed
// because: no job sees the shared memory of another
// rehearse: no
// after: leaves_marks_in_shared
// assay: temp found int32 (1)
// assay: fill found value=0
// assay: launch look grid=(264) block=(256) shared=100000 args=(found)
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, found, n)

__global__ void look(int* found)
{
    extern __shared__ volatile unsigned field[];
    for (int i = threadIdx.x; i < 25000; i += 256) {
        if (field[i] == 0x5ec2e7a5u) *found = 1;
    }
}

__global__ void work(const float* x, float* y, const int* found, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + 1000.0f * *found;
    }
}
