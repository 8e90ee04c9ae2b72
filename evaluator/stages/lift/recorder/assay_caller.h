// Included behind the last line of a submission: says what its entry function takes, and calls it.
//
// No header of the standard library is used, since a submission may have included none, or defined macros first.
#pragma once

namespace assay_caller {

struct Value {
    unsigned long long bits;
    double number;
};

template <typename T> struct Same {
    typedef T type;
    static constexpr bool reads = false;
};
template <typename T> struct Same<const T> {
    typedef T type;
    static constexpr bool reads = true;
};
template <typename T> struct Same<volatile T> {
    typedef T type;
    static constexpr bool reads = false;
};
template <typename T> struct Same<const volatile T> {
    typedef T type;
    static constexpr bool reads = true;
};

// What a type is called in a recording: a letter and its bytes. Pointers have the letter of what they point to behind
// them; `x` is everything that a caller of this kind cannot pass.
template <typename T> struct Kind {
    static constexpr char letter = __is_enum(T) ? 'i' : 'x';
};
template <> struct Kind<void> {
    static constexpr char letter = 'v';
};
template <> struct Kind<float> {
    static constexpr char letter = 'f';
};
template <> struct Kind<double> {
    static constexpr char letter = 'f';
};
template <> struct Kind<bool> {
    static constexpr char letter = 'b';
};
#define INTEGER_OF_ASSAY(type, its_letter)           \
    template <> struct Kind<type> {               \
        static constexpr char letter = its_letter; \
    };
INTEGER_OF_ASSAY(char, 'c')
INTEGER_OF_ASSAY(signed char, 'i')
INTEGER_OF_ASSAY(unsigned char, 'u')
INTEGER_OF_ASSAY(short, 'i')
INTEGER_OF_ASSAY(unsigned short, 'u')
INTEGER_OF_ASSAY(int, 'i')
INTEGER_OF_ASSAY(unsigned int, 'u')
INTEGER_OF_ASSAY(long, 'i')
INTEGER_OF_ASSAY(unsigned long, 'u')
INTEGER_OF_ASSAY(long long, 'i')
INTEGER_OF_ASSAY(unsigned long long, 'u')
#undef INTEGER_OF_ASSAY

template <typename T> constexpr int bytes_of(T *) { return (int)sizeof(T); }
constexpr int bytes_of(const volatile void *) { return 1; }
constexpr int bytes_of(void *) { return 1; }
constexpr int bytes_of(const void *) { return 1; }

struct Parameter {
    char letter;
    int bytes;
    char behind;
    int bytes_behind;
    bool reads;
};

template <typename T> struct Taken {
    static Parameter parameter() {
        return Parameter{Kind<typename Same<T>::type>::letter, (int)sizeof(T), '-', 0, false};
    }
    static T from(const Value &value) {
        if (Kind<typename Same<T>::type>::letter == 'f') return (T)value.number;
        return (T)value.bits;
    }
};
template <typename T> struct Taken<T *> {
    static Parameter parameter() {
        return Parameter{'p', 8, Kind<typename Same<T>::type>::letter, bytes_of((T *)nullptr), Same<T>::reads};
    }
    static T *from(const Value &value) { return (T *)value.bits; }
};

template <int... I> struct Indices {};
template <int N, int... I> struct UpTo : UpTo<N - 1, N - 1, I...> {};
template <int... I> struct UpTo<0, I...> {
    typedef Indices<I...> type;
};

template <typename R, typename... P, int... I> void call(R (*entry)(P...), const Value *values, Indices<I...>) {
    entry(Taken<P>::from(values[I])...);
}
template <typename R, typename... P> void call(R (*entry)(P...), const Value *values) {
    call(entry, values, typename UpTo<(int)sizeof...(P)>::type());
}
template <typename R, typename... P> int parameters(R (*)(P...), Parameter *found, int room) {
    Parameter all[] = {Taken<P>::parameter()..., Parameter()};
    int count = (int)sizeof...(P);
    for (int i = 0; i < count && i < room; i++) found[i] = all[i];
    return count;
}

} // namespace assay_caller

extern "C" void assay_call(const assay_caller::Value *values) { assay_caller::call(&::ENTRY_OF_ASSAY, values); }
extern "C" int assay_parameters(assay_caller::Parameter *found, int room) {
    return assay_caller::parameters(&::ENTRY_OF_ASSAY, found, room);
}
