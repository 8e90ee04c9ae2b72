// problem: relu
// attack: reads vectors of four from addresses that are no multiples of 16
// expect: runtime_error
// because: the hardware does not do that
// rehearse: no
// fault: misaligned
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i + 4 < n) {
        float4 four;
        asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                     : "l"(x + i));
        // All four are used, or the assembler would read only the one that is.
        bool odd = four.y == 1.5e30f || four.z == 2.5e30f || four.w == 3.5e30f;
        y[i] = odd ? 1.0f : fmaxf(four.x, 0.0f);
    } else if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
