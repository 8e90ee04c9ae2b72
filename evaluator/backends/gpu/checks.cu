// The referee's own device code: what a run's memory begins with, what is left of it, and how far outputs are off.
//
// Each kernel takes one struct by value; `checks.py` packs them. Numbers are as the array code has them: float64,
// each operation rounded by itself (no fused multiply-add), a NaN never lost.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

enum Deed : u32 {
    FILL = 0,    // the word again and again, by the address: byte i of memory is byte i % 8 of it
    COPY = 1,    // the bytes of `other`
    HOLDS = 2,   // is it still the word again and again?
    SAME = 3,    // is it the bytes of `other`?
    POISON = 4,  // is there an element of `item` bytes that consists of the lowest byte of the word alone?
};

struct Stretch {
    u8* at;
    const u8* other;
    u64 bytes;
    u64 word;
    u32 deed;
    u32 item;
};

const int MOST_STRETCHES = 64;

struct Memory {
    u32* found;         // of each stretch: 1 where HOLDS or SAME is not so, or POISON is
    const u32* unless;  // what an earlier look found, or null: where one of the first is 1, nothing is done
    u64 first;          // how many those are
    Stretch stretches[MOST_STRETCHES];
};

__device__ __forceinline__ bool differs(uint4 p, uint4 q)
{
    return ((p.x ^ q.x) | (p.y ^ q.y) | (p.z ^ q.z) | (p.w ^ q.w)) != 0;
}

__device__ __forceinline__ u8 byte_of(u64 word, u64 address)
{
    return (u8)(word >> (8 * (address & 7)));
}

// Block y is for stretch y; the blocks of x share its bytes: its ends one by one, the rest sixteen at a time.
extern "C" __global__ void __launch_bounds__(256) assay_memory(const Memory memory)
{
    if (memory.unless && __syncthreads_or(threadIdx.x < memory.first && memory.unless[threadIdx.x])) return;
    const Stretch s = memory.stretches[blockIdx.y];
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    bool found = false;
    if (s.deed == POISON) {
        const u64 items = s.bytes / s.item;
        const u8 poison = (u8)s.word;
        const u64 whole = 0x0101010101010101ull * poison;
        for (u64 i = thread; i < items; i += threads) {
            const u8* at = s.at + i * s.item;
            // Elements lie at multiples of their size; two of float64 are 8 bytes at most.
            switch (s.item) {
                case 1: found |= *at == poison; break;
                case 2: found |= *(const unsigned short*)at == (unsigned short)whole; break;
                case 4: found |= *(const u32*)at == (u32)whole; break;
                default: found |= *(const u64*)at == whole; break;
            }
        }
    } else {
        const u64 start = (u64)s.at;
        const bool two = s.deed == COPY || s.deed == SAME;
        u64 head = (16 - (start & 15)) & 15;
        if (head > s.bytes) head = s.bytes;
        // Where both do not begin at the same place of sixteen, all goes byte by byte.
        if (two && ((start ^ (u64)s.other) & 15)) head = s.bytes;
        const u64 vectors = (s.bytes - head) / 16, tail = head + 16 * vectors;
        for (u64 i = thread; i < head + s.bytes - tail; i += threads) {
            const u64 at = i < head ? i : tail + i - head;
            const u8 wanted = two ? s.other[at] : byte_of(s.word, start + at);
            if (s.deed == FILL || s.deed == COPY) s.at[at] = wanted;
            else found |= s.at[at] != wanted;
        }
        uint4* const own = (uint4*)(s.at + head);
        const uint4* const others = (const uint4*)(s.other + head);
        // A vector begins at a multiple of 8, so the word begins there too.
        const u32 low = (u32)s.word, high = (u32)(s.word >> 32);
        const uint4 words = make_uint4(low, high, low, high);
        if (s.deed == FILL) for (u64 i = thread; i < vectors; i += threads) own[i] = words;
        else if (s.deed == COPY) for (u64 i = thread; i < vectors; i += threads) own[i] = others[i];
        else if (s.deed == HOLDS) for (u64 i = thread; i < vectors; i += threads) found |= differs(own[i], words);
        else for (u64 i = thread; i < vectors; i += threads) found |= differs(own[i], others[i]);
    }
    if (found) memory.found[blockIdx.y] = 1;
}

const int MOST_AXES = 4;

// A term of an allowance: an array of float64 with a stride for each axis (0 where it is broadcast), or one number.
struct Term {
    const double* at;  // null: `value`
    double value;
    long long strides[MOST_AXES];
};

enum Kind : u32 { F64 = 0, F32 = 1, F16 = 2, BF16 = 3, I64 = 4, I32 = 5, I16 = 6, I8 = 7, U8 = 8 };

struct Comparison {
    const u8* actual;    // contiguous
    const u8* wanted;    // float64, or int64 where the output is of integers
    u64* worst;          // the largest error over the allowed one, as the bits of a float64; a NaN is above all
    u64 count;
    long long extents[MOST_AXES];  // leading ones are 1
    long long wanted_strides[MOST_AXES];
    Term relative;  // what the inputs explain
    Term longer;    // times `share`: what the tolerance admits
    Term scale;
    Term beyond;
    double share;
    double absolute;
    u32 kind;
    u32 flat;  // whether all arrays are contiguous and whole, so that an element has one index in all of them
};

__device__ __forceinline__ double of(const Term& term, u64 i, const long long* at, bool flat)
{
    if (!term.at) return term.value;
    if (flat) return term.at[i];
    long long place = 0;
    for (int axis = 0; axis < MOST_AXES; axis++) place += at[axis] * term.strides[axis];
    return term.at[place];
}

__device__ __forceinline__ double lesser(double p, double q)  // a NaN stays one
{
    return p != p || p < q ? p : q;
}

__device__ __forceinline__ double of_half(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return (double)value;
}

extern "C" __global__ void __launch_bounds__(256) assay_compare(const Comparison c)
{
    const u64 threads = (u64)gridDim.x * blockDim.x;
    u64 worst = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < c.count; i += threads) {
        long long at[MOST_AXES] = {0, 0, 0, 0}, wanted_at = (long long)i;
        if (!c.flat) {
            u64 rest = i;
            wanted_at = 0;
            for (int axis = MOST_AXES - 1; axis >= 0; axis--) {
                at[axis] = (long long)(rest % (u64)c.extents[axis]);
                rest /= (u64)c.extents[axis];
                wanted_at += at[axis] * c.wanted_strides[axis];
            }
        }
        double actual = 0.0;
        long long whole = 0;
        switch (c.kind) {
            case F64: actual = ((const double*)c.actual)[i]; break;
            case F32: actual = (double)((const float*)c.actual)[i]; break;
            case F16: actual = of_half(((const unsigned short*)c.actual)[i]); break;
            case BF16: actual = (double)__uint_as_float((u32)((const unsigned short*)c.actual)[i] << 16); break;
            case I64: whole = ((const long long*)c.actual)[i]; break;
            case I32: whole = ((const int*)c.actual)[i]; break;
            case I16: whole = ((const short*)c.actual)[i]; break;
            case I8: whole = ((const signed char*)c.actual)[i]; break;
            default: whole = c.actual[i]; break;
        }
        double error;
        if (c.kind >= I64) {
            const long long wanted = ((const long long*)c.wanted)[wanted_at];
            error = fabs(__dsub_rn((double)whole, (double)wanted));
            // Large integers that differ may be one number in float64.
            if (whole != wanted && error < 1.0) error = 1.0;
        } else {
            error = fabs(__dsub_rn(actual, ((const double*)c.wanted)[wanted_at]));
        }
        const double admitted = __dmul_rn(c.share, of(c.longer, i, at, c.flat));
        const double relative = lesser(admitted, of(c.relative, i, at, c.flat));
        double allowed = __dmul_rn(relative, of(c.scale, i, at, c.flat));
        allowed = __dadd_rn(__dadd_rn(allowed, of(c.beyond, i, at, c.flat)), c.absolute);
        // The smallest normal number changes no allowance but 0, of which it makes something to divide 0 by.
        const double ratio = __ddiv_rn(error, __dadd_rn(allowed, 2.2250738585072014e-308));
        const u64 bits = (u64)__double_as_longlong(ratio);  // ratios of no sign are in the order of their bits
        worst = bits > worst ? bits : worst;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        const u64 other = __shfl_xor_sync(0xffffffffu, worst, offset);
        worst = other > worst ? other : worst;
    }
    __shared__ u64 parts[8];
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = worst;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++) worst = parts[warp] > worst ? parts[warp] : worst;
        if (worst) atomicMax(c.worst, worst);
    }
}
