// problem: relu
// attack: a #line beyond the end, before what does not compile
// expect: compile_error
// because: the compiler's words stay, and the line is told as the source's own claim
// message: identifier "zzz" is undefined (line 777778 by the source's own #line; the file has 13)
#line 777775
__global__ void k(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = zzz;
}

