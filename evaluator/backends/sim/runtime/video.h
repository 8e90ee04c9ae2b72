// Video instructions: arithmetic on the bytes and halves of words (PTX ISA 9.0, sections 9.7.17 and 9.7.18).
#pragma once
#include "lanes.h"

enum VideoOperation { V_ADD, V_SUB, V_AVRG, V_ABSDIFF, V_MIN, V_MAX, V_SHL, V_SHR, V_EQ, V_NE, V_LT, V_LE, V_GT, V_GE };
enum VideoEnd { V_PLAIN, V_PLUS, V_LEAST, V_MOST, V_MERGED }; // what happens to the result and the third operand

// Some bits of a word, as a number.
struct Field {
    int bits, at;
    bool is_signed;
};
// Elements of a pair of words: `bits` wide each, of which `of_a` and `of_b` give the places, the lowest in their lowest
// four bits; `mask` are those of the result that are computed.
struct Elements {
    int bits;
    u32 of_a, of_b, mask;
    bool a_signed, b_signed;
};

U32 video_word(VideoOperation operation, Field x, Field y, Field to, bool saturate, VideoEnd end, U32 a, U32 b, U32 c);
// a * b + c, shifted right. `minus` negates the product, `minus_c` the addend, `one_more` adds 1.
struct Product128 {
    bool minus, minus_c, one_more, saturate;
    int shift;
};
U32 video_mad(Field x, Field y, Product128 how, U32 a, U32 b, U32 c);
U32 video_elements(VideoOperation operation, Elements of, bool is_signed, bool saturate, bool accumulate, U32 a, U32 b, U32 c);
