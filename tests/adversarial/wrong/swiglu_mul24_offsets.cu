// problem: swiglu
// class: sizes
// must: anything but passed
// why: byte offsets come from __umul24(index, 4), as on the first GPUs, whose multipliers had 24 bits: an index of 2^24 or more loses its high bits, so tensors of more than 2^24 elements (2^26 are allowed) are not written to their end
// proof: assay grade --size rows=4100 --size cols=4096 refuses it
// assay: launch swiglu_k grid=(ceil_div(rows * cols, 192)) block=(192) args=(gate, up, y, rows * cols)

#define IMUL(a, b) __umul24(a, b)

__device__ static float at(const float* base, unsigned index) { return *(const float*)((const char*)base + IMUL(index, 4u)); }

__global__ void swiglu_k(const float* gate, const float* up, float* y, int count)
{
    const unsigned index = IMUL(blockIdx.x, blockDim.x) + threadIdx.x;
    if (index < (unsigned)count) {
        const float g = at(gate, index), u = at(up, index);
        *(float*)((char*)y + IMUL(index, 4u)) = g / (1.0f + expf(-g)) * u;
    }
}
