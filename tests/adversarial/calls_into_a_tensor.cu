// problem: relu
// attack: writes machine code into its output and calls it, on the CPU or the GPU
// expect: runtime_error
// because: no memory that a kernel can write is ever executed
// fault: bad_call|trap|out_of_bounds|misaligned
// assay: launch relu grid=(1) block=(1) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    const unsigned char code[] = {0x48, 0x31, 0xc0, 0xc3, 0x48, 0x31, 0xc0, 0xc3};  // xor rax, rax; ret
    for (int i = 0; i < 4; ++i) {
        reinterpret_cast<unsigned char*>(y)[i] = code[i];
    }
    reinterpret_cast<void (*)()>(y)();
}
