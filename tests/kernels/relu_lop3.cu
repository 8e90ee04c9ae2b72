// problem: relu
// style: lop3 and an arithmetic shift in inline PTX
// assay: launch relu_lop3 grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu_lop3(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    unsigned bits = __float_as_uint(x[i]);
    unsigned kept;
    asm("{\n\t"
        ".reg .s32 sign;\n\t"
        "shr.s32 sign, %1, 31;\n\t"
        "lop3.b32 %0, %1, sign, 0, 0x30;\n\t"  // first and not second
        "}"
        : "=r"(kept)
        : "r"(bits));
    y[i] = __uint_as_float(kept);
}
