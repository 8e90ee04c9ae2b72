// The small types of PyTorch's C++ API: element types, devices, scalars, lists, options, checks. Declarations of ours,
// after the API that https://pytorch.org/cppdocs documents; nothing here computes anything.
#pragma once

#include "assay_wants.h"
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#ifdef __CUDACC__
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_RESTRICT __restrict__
#define C10_UNUSED __attribute__((unused))
#define C10_LIKELY(x) (__builtin_expect(static_cast<bool>(x), 1))
#define C10_UNLIKELY(x) (__builtin_expect(static_cast<bool>(x), 0))

namespace assay {

// An operator of PyTorch's own, or a read of data on the host: the recording ends, and says which.
[[noreturn]] void operator_called(const char *name);
[[noreturn]] void host_reads(const char *name);
[[noreturn]] void check_failed(const std::string &text);

inline std::string in_words(const char *text) { return text ? text : ""; }
inline std::string in_words(const std::string &text) { return text; }
inline std::string in_words(char value) { return std::string(1, value); }
inline std::string in_words(bool value) { return value ? "1" : "0"; }
inline std::string in_words(int value) { return std::to_string(value); }
inline std::string in_words(unsigned value) { return std::to_string(value); }
inline std::string in_words(long value) { return std::to_string(value); }
inline std::string in_words(unsigned long value) { return std::to_string(value); }
inline std::string in_words(long long value) { return std::to_string(value); }
inline std::string in_words(unsigned long long value) { return std::to_string(value); }
inline std::string in_words(float value) { return std::to_string(value); }
inline std::string in_words(double value) { return std::to_string(value); }
template <typename T> std::string in_words(const T &) { return "..."; }

template <typename... A> std::string said(const A &...parts) { return (std::string() + ... + in_words(parts)); }

} // namespace assay

namespace c10 {

struct alignas(2) Half;
struct alignas(2) BFloat16;

enum class ScalarType : int8_t {
    Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6, Double = 7, ComplexHalf = 8, ComplexFloat = 9,
    ComplexDouble = 10, Bool = 11, QInt8 = 12, QUInt8 = 13, QInt32 = 14, BFloat16 = 15, Float8_e5m2 = 23, Float8_e4m3fn = 24,
    UInt16 = 27, UInt32 = 28, UInt64 = 29, Undefined = 45
};
constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte, kChar = ScalarType::Char, kInt8 = ScalarType::Char,
                     kShort = ScalarType::Short, kInt16 = ScalarType::Short, kInt = ScalarType::Int, kInt32 = ScalarType::Int,
                     kLong = ScalarType::Long, kInt64 = ScalarType::Long, kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
                     kFloat = ScalarType::Float, kFloat32 = ScalarType::Float, kDouble = ScalarType::Double,
                     kFloat64 = ScalarType::Double, kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16,
                     kUInt16 = ScalarType::UInt16, kUInt32 = ScalarType::UInt32, kUInt64 = ScalarType::UInt64;

const char *toString(ScalarType type);
size_t elementSize(ScalarType type);
inline bool isFloatingType(ScalarType t) {
    return t == kHalf || t == kFloat || t == kDouble || t == kBFloat16 || t == ScalarType::Float8_e5m2 || t == ScalarType::Float8_e4m3fn;
}
inline bool isIntegralType(ScalarType t, bool and_bool = false) {
    return (t >= kByte && t <= kLong) || t == kUInt16 || t == kUInt32 || t == kUInt64 || (and_bool && t == kBool);
}

template <typename T> struct CppTypeToScalarType;
#define ASSAY_ELEMENT(type, name)                                            \
    template <> struct CppTypeToScalarType<type> {                           \
        static constexpr ScalarType value = ScalarType::name;                \
    };
#define ASSAY_ELEMENTS(_)                                                                                      \
    _(uint8_t, Byte) _(int8_t, Char) _(int16_t, Short) _(int, Int) _(int64_t, Long) _(c10::Half, Half)          \
    _(float, Float) _(double, Double) _(bool, Bool) _(c10::BFloat16, BFloat16) _(uint16_t, UInt16)              \
    _(uint32_t, UInt32) _(uint64_t, UInt64)
ASSAY_ELEMENTS(ASSAY_ELEMENT)
#undef ASSAY_ELEMENT
namespace impl {
template <ScalarType S> struct ScalarTypeToCPPType;
#define ASSAY_ELEMENT(its_type, name)                          \
    template <> struct ScalarTypeToCPPType<ScalarType::name> { \
        using type = its_type;                                 \
    };
ASSAY_ELEMENTS(ASSAY_ELEMENT)
#undef ASSAY_ELEMENT
template <ScalarType S> using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<S>::type;
} // namespace impl

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 14 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;
struct Device {
    DeviceType kind = kCPU;
    DeviceIndex number = -1;
    Device(DeviceType type, DeviceIndex index = -1) : kind(type), number(index) {}
    Device(const std::string &text) : kind(text.compare(0, 4, "cuda") == 0 ? kCUDA : kCPU) {}
    Device(const char *text) : Device(std::string(text)) {}
    DeviceType type() const { return kind; }
    DeviceIndex index() const { return number; }
    bool has_index() const { return number >= 0; }
    bool is_cuda() const { return kind == kCUDA; }
    bool is_cpu() const { return kind == kCPU; }
    std::string str() const { return kind == kCUDA ? "cuda:0" : "cpu"; }
    bool operator==(const Device &other) const { return kind == other.kind; }
    bool operator!=(const Device &other) const { return kind != other.kind; }
};

enum class Layout : int8_t { Strided, Sparse };
constexpr Layout kStrided = Layout::Strided;
enum class DispatchKey : int8_t { CPU, CUDA, Meta, Autograd, AutogradCUDA, CompositeExplicitAutograd, CompositeImplicitAutograd };
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

class Error : public std::exception {
    std::string text_;

  public:
    explicit Error(std::string text) : text_(std::move(text)) {}
    const char *what() const noexcept override { return text_.c_str(); }
    const std::string &msg() const { return text_; }
};

using std::nullopt;
using std::nullopt_t;
using std::optional;

// What sizes are passed as: it only points at them, as PyTorch's does.
template <typename T> class ArrayRef {
    const T *data_ = nullptr;
    size_t size_ = 0;

  public:
    using value_type = T;
    using const_iterator = const T *;
    constexpr ArrayRef() = default;
    constexpr ArrayRef(const T &one) : data_(&one), size_(1) {}
    constexpr ArrayRef(const T *data, size_t size) : data_(data), size_(size) {}
    constexpr ArrayRef(const T *begin, const T *end) : data_(begin), size_((size_t)(end - begin)) {}
    ArrayRef(const std::vector<T> &all) : data_(all.data()), size_(all.size()) {}
    constexpr ArrayRef(const std::initializer_list<T> &all) : data_(all.begin()), size_(all.size()) {}
    template <size_t N> constexpr ArrayRef(const T (&all)[N]) : data_(all), size_(N) {}
    constexpr const T *data() const { return data_; }
    constexpr size_t size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr const T *begin() const { return data_; }
    constexpr const T *end() const { return data_ + size_; }
    const T &operator[](size_t i) const { return data_[i]; }
    const T &at(size_t i) const {
        if (i >= size_) assay::check_failed("an index is beyond the end of an ArrayRef");
        return data_[i];
    }
    const T &front() const { return at(0); }
    const T &back() const { return at(size_ - 1); }
    ArrayRef slice(size_t from, size_t many) const { return ArrayRef(data_ + from, many); }
    ArrayRef slice(size_t from) const { return ArrayRef(data_ + from, size_ - from); }
    std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
    bool equals(ArrayRef other) const { return *this == other; }
    friend bool operator==(const ArrayRef &a, const ArrayRef &b) {
        if (a.size_ != b.size_) return false;
        for (size_t i = 0; i < a.size_; i++)
            if (!(a.data_[i] == b.data_[i])) return false;
        return true;
    }
    friend bool operator!=(const ArrayRef &a, const ArrayRef &b) { return !(a == b); }
    friend bool operator==(const ArrayRef &a, const std::vector<T> &b) { return a == ArrayRef(b); }
    friend bool operator!=(const ArrayRef &a, const std::vector<T> &b) { return !(a == ArrayRef(b)); }
};
using IntArrayRef = ArrayRef<int64_t>;

class Scalar {
    double number_ = 0;
    long long whole_ = 0;
    char kind_ = 'i';

  public:
    Scalar() = default;
    Scalar(double v) : number_(v), whole_((long long)v), kind_('f') {}
    Scalar(float v) : Scalar((double)v) {}
    Scalar(bool v) : number_(v), whole_(v), kind_('b') {}
    Scalar(int v) : number_(v), whole_(v) {}
    Scalar(unsigned v) : number_(v), whole_(v) {}
    Scalar(long v) : number_((double)v), whole_(v) {}
    Scalar(unsigned long v) : number_((double)v), whole_((long long)v) {}
    Scalar(long long v) : number_((double)v), whole_(v) {}
    template <typename T> T to() const { return kind_ == 'f' ? (T)number_ : (T)whole_; }
    double toDouble() const { return to<double>(); }
    float toFloat() const { return to<float>(); }
    int toInt() const { return to<int>(); }
    int64_t toLong() const { return to<int64_t>(); }
    bool toBool() const { return to<bool>(); }
    bool isFloatingPoint() const { return kind_ == 'f'; }
    bool isIntegral(bool and_bool = false) const { return kind_ == 'i' || (and_bool && kind_ == 'b'); }
    bool isBoolean() const { return kind_ == 'b'; }
};

} // namespace c10

namespace caffe2 {

struct TypeMeta {
    c10::ScalarType type = c10::kFloat;
    TypeMeta(c10::ScalarType its_type = c10::kFloat) : type(its_type) {}
    c10::ScalarType toScalarType() const { return type; }
    bool isScalarType(c10::ScalarType other) const { return type == other; }
    size_t itemsize() const { return c10::elementSize(type); }
    const char *name() const { return c10::toString(type); }
    template <typename T> bool Match() const { return type == c10::CppTypeToScalarType<T>::value; }
    template <typename T> static TypeMeta Make() { return c10::CppTypeToScalarType<T>::value; }
};
inline bool operator==(TypeMeta a, TypeMeta b) { return a.type == b.type; }
inline bool operator!=(TypeMeta a, TypeMeta b) { return a.type != b.type; }
inline bool operator==(TypeMeta a, c10::ScalarType b) { return a.type == b; }
inline bool operator!=(TypeMeta a, c10::ScalarType b) { return a.type != b; }
inline bool operator==(c10::ScalarType a, TypeMeta b) { return a == b.type; }
inline bool operator!=(c10::ScalarType a, TypeMeta b) { return a != b.type; }

} // namespace caffe2

namespace assay {

inline std::string in_words(c10::ScalarType type) { return c10::toString(type); }
inline std::string in_words(caffe2::TypeMeta type) { return type.name(); }
inline std::string in_words(const c10::Device &device) { return device.str(); }
inline std::string in_words(c10::DeviceType type) { return type == c10::kCUDA ? "cuda" : "cpu"; }
inline std::string in_words(c10::IntArrayRef all) {
    std::string text = "[";
    for (size_t i = 0; i < all.size(); i++) text += (i ? ", " : "") + std::to_string(all[i]);
    return text + "]";
}
inline std::string in_words(const std::vector<int64_t> &all) { return in_words(c10::IntArrayRef(all)); }

} // namespace assay

namespace c10 {

inline ScalarType typeMetaToScalarType(caffe2::TypeMeta type) { return type.type; }

class TensorOptions {
    optional<ScalarType> type_;
    optional<Device> device_;
    optional<MemoryFormat> format_;
    bool requires_grad_ = false;

  public:
    TensorOptions() = default;
    TensorOptions(ScalarType type) : type_(type) {}
    TensorOptions(caffe2::TypeMeta type) : type_(type.type) {}
    TensorOptions(Device device) : device_(device) {}
    TensorOptions(DeviceType device) : device_(Device(device)) {}
    TensorOptions(Layout) {}
    TensorOptions(MemoryFormat format) : format_(format) {}
    TensorOptions dtype(optional<ScalarType> type) const {
        TensorOptions made = *this;
        made.type_ = type;
        return made;
    }
    TensorOptions dtype(ScalarType type) const { return dtype(optional<ScalarType>(type)); }
    TensorOptions dtype(caffe2::TypeMeta type) const { return dtype(optional<ScalarType>(type.type)); }
    template <typename T> TensorOptions dtype() const { return dtype(CppTypeToScalarType<T>::value); }
    TensorOptions device(optional<Device> device) const {
        TensorOptions made = *this;
        made.device_ = device;
        return made;
    }
    TensorOptions device(Device its_device) const { return device(optional<Device>(its_device)); }
    TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(optional<Device>(Device(type, index))); }
    TensorOptions device_index(int) const { return device(Device(kCUDA, 0)); }
    TensorOptions layout(Layout) const { return *this; }
    TensorOptions memory_format(optional<MemoryFormat> format) const {
        TensorOptions made = *this;
        made.format_ = format;
        return made;
    }
    TensorOptions memory_format(MemoryFormat format) const { return memory_format(optional<MemoryFormat>(format)); }
    TensorOptions pinned_memory(bool) const { return *this; }
    TensorOptions requires_grad(bool wanted) const {
        TensorOptions made = *this;
        made.requires_grad_ = wanted;
        return made;
    }
    caffe2::TypeMeta dtype() const { return type_.value_or(kFloat); }
    Device device() const { return device_.value_or(Device(kCPU)); }
    bool has_dtype() const { return type_.has_value(); }
    bool has_device() const { return device_.has_value(); }
    bool has_memory_format() const { return format_.has_value(); }
    optional<MemoryFormat> memory_format_opt() const { return format_; }
    bool requires_grad() const { return requires_grad_; }
    Layout layout() const { return kStrided; }
    // The same where `over` says nothing.
    TensorOptions merge_in(TensorOptions over) const {
        TensorOptions made = *this;
        if (over.type_) made.type_ = over.type_;
        if (over.device_) made.device_ = over.device_;
        if (over.format_) made.format_ = over.format_;
        return made;
    }
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(caffe2::TypeMeta type) { return TensorOptions(type); }
template <typename T> TensorOptions dtype() { return TensorOptions(CppTypeToScalarType<T>::value); }
inline TensorOptions device(Device its_device) { return TensorOptions(its_device); }
inline TensorOptions device(DeviceType type, DeviceIndex index = -1) { return TensorOptions(Device(type, index)); }
inline TensorOptions requires_grad(bool wanted = true) { return TensorOptions().requires_grad(wanted); }
inline TensorOptions layout(Layout) { return TensorOptions(); }
inline TensorOptions memory_format(MemoryFormat format) { return TensorOptions(format); }

template <typename T> inline T divup(T a, T b) { return (a + b - 1) / b; }

template <typename T> struct IntegerRange {
    struct Iterator {
        T value;
        T operator*() const { return value; }
        Iterator &operator++() { return ++value, *this; }
        bool operator!=(const Iterator &other) const { return value < other.value; }
    };
    T first, last;
    Iterator begin() const { return {first}; }
    Iterator end() const { return {last}; }
};
template <typename T> IntegerRange<T> irange(T last) { return {T(0), last}; }
template <typename A, typename T> IntegerRange<T> irange(A first, T last) { return {(T)first, last}; }

template <typename T, unsigned N = 0> struct SmallVector : std::vector<T> {
    using std::vector<T>::vector;
    SmallVector(ArrayRef<T> all) : std::vector<T>(all.begin(), all.end()) {}
};

struct InferenceMode {
    explicit InferenceMode(bool = true) {}
    static bool is_enabled() { return true; }
};

// Namespaces of PyTorch's in which nothing stands here: what is looked for there is named.
namespace detail {}
namespace util {}

} // namespace c10

namespace assay {
template <typename T> struct IsWritten : std::false_type {};
template <> struct IsWritten<c10::ScalarType> : std::true_type {};
template <> struct IsWritten<c10::Device> : std::true_type {};
template <> struct IsWritten<c10::DeviceType> : std::true_type {};
template <> struct IsWritten<c10::IntArrayRef> : std::true_type {};
template <> struct IsWritten<caffe2::TypeMeta> : std::true_type {};
} // namespace assay
// Into a stream of any type, so that those of C++ need not be read.
namespace c10 {
template <typename S, typename T> std::enable_if_t<assay::IsWritten<T>::value, S &> operator<<(S &stream, const T &value) {
    stream << assay::in_words(value).c_str();
    return stream;
}
} // namespace c10
namespace caffe2 {
using c10::operator<<;
}

#define TORCH_CHECK(condition, ...)                                                                               \
    do {                                                                                                          \
        if (C10_UNLIKELY(!(condition))) assay::check_failed(assay::said_or("Expected " #condition " to be true, but it is not", ##__VA_ARGS__)); \
    } while (0)
#define TORCH_CHECK_WITH(kind, condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(condition, ...)
#define AT_ASSERT(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ERROR(...) assay::check_failed(assay::said(__VA_ARGS__))
#define TORCH_WARN(...) ((void)0)
#define TORCH_WARN_ONCE(...) ((void)0)
#define TORCH_CHECK_OF(a, sign, b, ...) TORCH_CHECK((a)sign(b), ##__VA_ARGS__)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK_OF(a, ==, b)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK_OF(a, !=, b)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK_OF(a, <, b)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK_OF(a, <=, b)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK_OF(a, >, b)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK_OF(a, >=, b)

namespace assay {
inline std::string said_or(const char *otherwise) { return otherwise; }
template <typename... A> std::string said_or(const char *, const A &...parts) { return said(parts...); }
} // namespace assay
