// problem: relu
// attack: looks for marks of another job in module memory that it has not written; wrong where it finds some
// expect: passed
// because: a module's variables begin as zeros
// rehearse: no
// after: leaves_marks_in_globals
// assay: temp found int32 (1)
// assay: fill found value=0
// assay: launch look grid=(64) block=(256) args=(found)
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, found, n)

__device__ volatile unsigned field[1 << 20];

__global__ void look(int* found)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < 1 << 20; i += 64 * 256) {
        if (field[i] != 0) *found = 1;
    }
}

__global__ void work(const float* x, float* y, const int* found, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + 1000.0f * *found;
    }
}
