// problem: scalar_multiply
// attack: a branch in assembly goes back to itself, so that the compiler knows of no loop
// expect: timeout
// message: times what the naive kernel takes
// because: every branch that goes back counts, whoever wrote it

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
    asm volatile("{ .reg .pred p; AGAIN: setp.ne.s32 p, %0, -1; @p bra AGAIN; }" ::"r"(i));
}
