// torch/extension.h: tensors, and the module that Python imports, as pybind11 spells it.
#pragma once

#include "assay_tensor.h"

namespace assay {

// What goes into a function, or comes out of it.
struct Value {
    char kind = 'n'; // `n` None, `t` tensor, `i` integer, `f` floating point, `b` bool, `s` text, `l` list
    at::Tensor tensor;
    long long whole = 0;
    double number = 0;
    std::string text;
    std::vector<Value> list;
};

struct Taker {
    std::string kind; // as of a Value; `o` behind it where it may be None, `l` behind it for a list; `x` anything else
    std::string name;
    bool has_default = false;
    Value otherwise;
};

[[noreturn]] void wrong_kind(const char *wanted, const Value &value);

template <typename T, typename = void> struct Taken {
    static const char *kind() { return "x"; }
    static T from(const Value &) { check_failed("an argument of a type that cannot be passed"); }
};
template <> struct Taken<at::Tensor> {
    static const char *kind() { return "t"; }
    static at::Tensor from(const Value &v) { return v.kind == 't' ? v.tensor : (wrong_kind("a tensor", v), at::Tensor()); }
};
template <typename T> struct Taken<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static const char *kind() { return "i"; }
    static T from(const Value &v) {
        if ((v.kind != 'i' && v.kind != 'b') || (long long)(T)v.whole != v.whole) wrong_kind("an integer of its range", v);
        return (T)v.whole;
    }
};
template <typename T> struct Taken<T, std::enable_if_t<std::is_floating_point_v<T>>> {
    static const char *kind() { return "f"; }
    static T from(const Value &v) {
        if (v.kind == 'f') return (T)v.number;
        return v.kind == 'i' || v.kind == 'b' ? (T)v.whole : (wrong_kind("a number", v), T());
    }
};
template <> struct Taken<bool> {
    static const char *kind() { return "b"; }
    static bool from(const Value &v) { return v.kind == 'b' ? v.whole != 0 : (wrong_kind("a bool", v), false); }
};
template <> struct Taken<c10::Scalar> {
    static const char *kind() { return "f"; }
    static c10::Scalar from(const Value &v) {
        if (v.kind == 'f') return c10::Scalar(v.number);
        return v.kind == 'b' ? c10::Scalar(v.whole != 0) : c10::Scalar(v.whole);
    }
};
template <> struct Taken<std::string> {
    static const char *kind() { return "s"; }
    static std::string from(const Value &v) { return v.kind == 's' ? v.text : (wrong_kind("a text", v), ""); }
};
template <typename T> struct Taken<std::optional<T>> {
    static const char *kind() {
        static const std::string made = std::string(Taken<T>::kind()) + "o";
        return made.c_str();
    }
    static std::optional<T> from(const Value &v) { return v.kind == 'n' ? std::optional<T>() : std::optional<T>(Taken<T>::from(v)); }
};
template <typename T> struct Taken<std::vector<T>> {
    static const char *kind() {
        static const std::string made = std::string(Taken<T>::kind()) + "l";
        return made.c_str();
    }
    static std::vector<T> from(const Value &v) {
        if (v.kind != 'l') wrong_kind("a list", v);
        std::vector<T> all;
        for (const Value &one : v.list) all.push_back(Taken<T>::from(one));
        return all;
    }
};
template <typename T> struct Taken<c10::ArrayRef<T>> {
    static const char *kind() { return Taken<std::vector<T>>::kind(); }
    static c10::ArrayRef<T> from(const Value &v) { return *new std::vector<T>(Taken<std::vector<T>>::from(v)); }
};

inline void give(std::vector<at::Tensor> &found, const at::Tensor &one) { found.push_back(one); }
inline void give(std::vector<at::Tensor> &found, const std::vector<at::Tensor> &all) {
    for (const at::Tensor &one : all) found.push_back(one);
}
template <typename T> void give(std::vector<at::Tensor> &found, const std::optional<T> &one) {
    if (one) give(found, *one);
}
template <typename A, typename B> void give(std::vector<at::Tensor> &found, const std::pair<A, B> &both) {
    give(found, both.first);
    give(found, both.second);
}
template <typename... T> void give(std::vector<at::Tensor> &found, const std::tuple<T...> &all) {
    std::apply([&](const T &...each) { (give(found, each), ...); }, all);
}
template <typename T, size_t N> void give(std::vector<at::Tensor> &found, const std::array<T, N> &all) {
    for (const T &one : all) give(found, one);
}
// Numbers and texts that are returned are nothing that is judged.
template <typename T> std::enable_if_t<std::is_arithmetic_v<T>> give(std::vector<at::Tensor> &, const T &) {}

struct Function {
    std::string name;
    std::vector<Taker> parameters;
    bool several = false; // whether it returns a list or a tuple
    virtual void call(const std::vector<Value> &values, std::vector<at::Tensor> &returned) = 0;
};
void add(Function *made);

template <typename F, typename R, typename... P> struct Bound : Function {
    F function;
    explicit Bound(F its) : function(std::move(its)) {
        several = !std::is_same_v<std::decay_t<R>, at::Tensor>;
        const char *kinds[] = {Taken<std::decay_t<P>>::kind()..., ""};
        for (size_t i = 0; i < sizeof...(P); i++) parameters.push_back(Taker{kinds[i], "", false, {}});
    }
    void call(const std::vector<Value> &values, std::vector<at::Tensor> &returned) override {
        call_with(values, returned, std::index_sequence_for<P...>());
    }
    template <size_t... I> void call_with(const std::vector<Value> &values, std::vector<at::Tensor> &returned, std::index_sequence<I...>) {
        std::tuple<std::decay_t<P>...> held{Taken<std::decay_t<P>>::from(values.at(I))...};
        if constexpr (std::is_void_v<R>)
            function(static_cast<P>(std::get<I>(held))...);
        else
            give(returned, function(static_cast<P>(std::get<I>(held))...));
    }
};
template <typename R, typename... P> Function *bound(R (*function)(P...)) { return new Bound<R (*)(P...), R, P...>(function); }
template <typename F, typename R, typename C, typename... P> Function *bound_object(F function, R (C::*)(P...) const) {
    return new Bound<F, R, P...>(std::move(function));
}
template <typename F> std::enable_if_t<std::is_class_v<F>, Function *> bound(F function) { return bound_object(function, &F::operator()); }

template <typename T> Value value_of(const T &given) {
    Value made;
    if constexpr (std::is_same_v<T, bool>) made.kind = 'b', made.whole = given;
    else if constexpr (std::is_integral_v<T>) made.kind = 'i', made.whole = (long long)given;
    else if constexpr (std::is_floating_point_v<T>) made.kind = 'f', made.number = (double)given;
    else if constexpr (std::is_convertible_v<T, std::string>) made.kind = 's', made.text = given;
    return made;
}

struct Module {
    Module(void (*fill)()) { fill(); }
};

} // namespace assay

namespace pybind11 {

struct none {};
class object;
struct arg_v;
struct arg {
    const char *name;
    constexpr explicit arg(const char *its) : name(its) {}
    template <typename T> arg_v operator=(T &&value) const;
    arg noconvert(bool = true) const { return *this; }
    arg none(bool = true) const { return *this; }
};
struct arg_v {
    const char *name;
    assay::Value value;
    arg_v noconvert(bool = true) const { return *this; }
    arg_v none(bool = true) const { return *this; }
};
template <typename T> arg_v arg::operator=(T &&value) const { return arg_v{name, assay::value_of<std::decay_t<T>>(value)}; }
struct kw_only {};
struct pos_only {};
template <typename T> struct call_guard {};
struct gil_scoped_release {
    gil_scoped_release() {}
};
struct gil_scoped_acquire {
    gil_scoped_acquire() {}
};
namespace literals {
constexpr arg operator""_a(const char *name, size_t) { return arg(name); }
} // namespace literals

struct cast_error : c10::Error {
    using c10::Error::Error;
};

// A Python object that was passed: a tensor, a number, a text, a list or None.
class object {
  protected:
    assay::Value value_;

  public:
    object() = default;
    explicit object(assay::Value value) : value_(std::move(value)) {}
    object(const none &) {}
    bool is_none() const { return value_.kind == 'n'; }
    bool is(const none &) const { return is_none(); }
    const assay::Value &value() const { return value_; }
    object attr(const char *name) const { throw cast_error(std::string("it has no attribute '") + name + "'"); }
    template <typename T> T cast() const {
        if constexpr (std::is_base_of_v<object, std::decay_t<T>>) {
            return std::decay_t<T>(value_);
        } else {
            try {
                return assay::Taken<std::decay_t<T>>::from(value_);
            } catch (const c10::Error &error) {
                throw cast_error(error.what());
            }
        }
    }
    template <typename T> operator std::vector<T>() const { return cast<std::vector<T>>(); }
};
using handle = object;
template <typename T> T cast(const object &given) { return given.cast<T>(); }

// Python's own kinds of objects.
struct int_ : object {
    explicit int_(const assay::Value &value) : object(value) {}
    template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>> int_(T given) : object(assay::value_of(given)) {}
    static bool is_kind(const assay::Value &v) { return v.kind == 'i' || v.kind == 'b'; }
    operator long long() const { return value_.whole; }
};
struct float_ : object {
    explicit float_(const assay::Value &value) : object(value) {}
    float_(double given) : object(assay::value_of(given)) {}
    static bool is_kind(const assay::Value &v) { return v.kind == 'f'; }
    operator double() const { return cast<double>(); }
};
struct bool_ : object {
    explicit bool_(const assay::Value &value) : object(value) {}
    bool_(bool given) : object(assay::value_of(given)) {}
    static bool is_kind(const assay::Value &v) { return v.kind == 'b'; }
    operator bool() const { return value_.whole != 0; }
};
struct sequence : object {
    explicit sequence(const assay::Value &value) : object(value) {
        for (const assay::Value &one : value.list) held_.push_back(object(one));
    }
    static bool is_kind(const assay::Value &v) { return v.kind == 'l'; }
    size_t size() const { return held_.size(); }
    bool empty() const { return held_.empty(); }
    object operator[](size_t at) const { return held_.at(at); }
    auto begin() const { return held_.begin(); }
    auto end() const { return held_.end(); }

  private:
    std::vector<object> held_;
};
using list = sequence;
using tuple = sequence;
inline size_t len(const object &given) { return given.value().list.size(); }
template <typename T> bool isinstance(const object &given) {
    if constexpr (std::is_base_of_v<object, T>) return T::is_kind(given.value());
    else return given.value().kind == assay::Taken<T>::kind()[0];
}
// None of what is passed has attributes: a tensor is one itself, and no parameter that holds one.
inline bool hasattr(const object &, const char *) { return false; }

class module_ {
    struct Text {
        template <typename T> void operator=(const T &) {}
    };
    static void read(assay::Function &, size_t &, const char *) {}
    static void read(assay::Function &f, size_t &at, const arg &one) {
        if (at < f.parameters.size()) f.parameters[at++].name = one.name;
    }
    static void read(assay::Function &f, size_t &at, const arg_v &one) {
        if (at >= f.parameters.size()) return;
        assay::Taker &taker = f.parameters[at++];
        taker.name = one.name;
        taker.has_default = true;
        taker.otherwise = one.value;
    }
    template <typename T> static void read(assay::Function &, size_t &, const T &) {}

  public:
    Text doc() { return Text(); }
    Text attr(const char *) { return Text(); }
    template <typename F, typename... E> module_ &def(const char *name, F function, const E &...extra) {
        assay::Function *made = assay::bound(function);
        made->name = name;
        size_t at = 0;
        (read(*made, at, extra), ...);
        assay::add(made);
        return *this;
    }
};
using module = module_;

} // namespace pybind11
namespace py = pybind11;

namespace assay {
template <typename T> struct Taken<T, std::enable_if_t<std::is_base_of_v<pybind11::object, T>>> {
    static const char *kind() { return "o"; }
    static T from(const Value &v) { return T(v); }
};
} // namespace assay

namespace torch {
template <typename F> F wrap_pybind_function(F function) { return function; }
} // namespace torch

#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME extension
#endif
#define ASSAY_JOINED_(a, b) a##b
#define ASSAY_JOINED(a, b) ASSAY_JOINED_(a, b)
// The function with external linkage is there as PyTorch's is: without one, names of anonymous namespaces hold the
// number of the compiler's process.
#define PYBIND11_MODULE(its_name, variable)                                                                        \
    extern "C" void ASSAY_JOINED(PyInit_, its_name)() {}                                                           \
    static void ASSAY_JOINED(assay_fill_, its_name)(pybind11::module_ & variable);                                 \
    static assay::Module ASSAY_JOINED(assay_module_, its_name)([] {                                                \
        pybind11::module_ made;                                                                                    \
        ASSAY_JOINED(assay_fill_, its_name)(made);                                                                 \
    });                                                                                                            \
    static void ASSAY_JOINED(assay_fill_, its_name)(pybind11::module_ & variable)
