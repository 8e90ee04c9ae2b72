// A module of Python's: its functions with what they take, and a script of calls.
//
// A line of the script makes a value, which later ones name by its number: a tensor of the problem, a number, a text,
// what a function returned, a view.

#include "assay_extension.h"
#include "recorder.h"

namespace {

// Made when they are first asked for: the module is filled by an initialiser of the submission.
std::vector<assay::Function *> &functions() {
    static auto *all = new std::vector<assay::Function *>;
    return *all;
}

struct Line {
    std::string what, text;
    std::vector<long long> numbers;
    double number = 0;
};
std::vector<Line> *script;

std::string from_hex(const char *hex) {
    std::string made;
    for (size_t i = 0; hex[i] && hex[i + 1]; i += 2) made += (char)strtol(std::string(hex + i, 2).c_str(), nullptr, 16);
    return made;
}

assay::Function &named(const std::string &name, size_t many) {
    assay::Function *found = nullptr;
    for (assay::Function *one : functions())
        if (one->name == name && (!found || one->parameters.size() == many)) found = one;
    if (!found) assay::check_failed("module has no attribute '" + name + "'");
    return *found;
}

std::vector<assay::Value> arguments_of(const assay::Function &function, std::vector<assay::Value> given) {
    size_t takes = function.parameters.size();
    for (size_t i = given.size(); i < takes && function.parameters[i].has_default; i++) given.push_back(function.parameters[i].otherwise);
    if (given.size() != takes)
        assay::check_failed(assay::said(function.name, "(): incompatible function arguments: it takes ", takes, ", and is given ", given.size()));
    return given;
}

std::string in_json(const at::Tensor &one) {
    std::string shape;
    for (int64_t size : one.sizes()) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    return "{\"address\": " + std::to_string((unsigned long long)one.data_ptr()) + ", \"type\": \"" + c10::toString(one.scalar_type()) +
           "\", \"shape\": [" + shape + "], \"contiguous\": " + (one.is_contiguous() ? "true" : "false") +
           ", \"on_device\": " + (one.is_cuda() ? "true" : "false") + "}";
}

assay::Value tensor_value(const at::Tensor &tensor) {
    assay::Value made;
    made.kind = tensor.defined() ? 't' : 'n';
    made.tensor = tensor;
    return made;
}

at::Tensor tensor_of(const assay::Value &value) { return assay::Taken<at::Tensor>::from(value); }

bool is_view(const std::string &what) {
    for (const char *one : {"view", "reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "contiguous", "select", "narrow"})
        if (what == one) return true;
    return false;
}

at::Tensor viewed(const std::string &what, const at::Tensor &x, const std::vector<int64_t> &n) {
    if (what == "view") return x.view(n);
    if (what == "reshape") return x.reshape(n);
    if (what == "flatten") return x.flatten(n.at(0), n.at(1));
    if (what == "transpose") return x.transpose(n.at(0), n.at(1));
    if (what == "permute") return x.permute(n);
    if (what == "squeeze") return n.empty() ? x.squeeze() : x.squeeze(n[0]);
    if (what == "unsqueeze") return x.unsqueeze(n.at(0));
    if (what == "select") return x.select(n.at(0), n.at(1));
    if (what == "narrow") return x.narrow(n.at(0), n.at(1), n.at(2));
    return x.contiguous((c10::MemoryFormat)n.at(0));
}

assay::Value carried_out(const Line &line, const std::vector<assay::Value> &values) {
    const std::vector<long long> &n = line.numbers;
    assay::Value made;
    if (line.what == "tensor") {
        std::vector<int64_t> sizes(n.begin() + 2, n.end());
        return tensor_value(at::from_blob((void *)recorder().buffers.at((size_t)n.at(0)).base, sizes, (c10::ScalarType)n.at(1)));
    } else if (line.what == "int" || line.what == "bool") {
        made.kind = line.what[0];
        made.whole = n.at(0);
    } else if (line.what == "float") {
        made.kind = 'f';
        made.number = line.number;
    } else if (line.what == "text") {
        made.kind = 's';
        made.text = line.text;
    } else if (line.what == "list" || line.what == "call") {
        std::vector<assay::Value> given;
        for (long long one : n) given.push_back(values.at((size_t)one));
        made.kind = 'l';
        if (line.what == "list") {
            made.list = given;
        } else {
            std::vector<at::Tensor> returned;
            assay::Function &function = named(line.text, given.size());
            function.call(arguments_of(function, given), returned);
            if (!function.several && returned.size() == 1) return tensor_value(returned[0]);
            for (const at::Tensor &one : returned) made.list.push_back(tensor_value(one));
        }
    } else if (line.what == "index") {
        const assay::Value &of = values.at((size_t)n.at(0));
        return of.kind == 'l' ? of.list.at((size_t)n.at(1)) : tensor_value(tensor_of(of)[n.at(1)]);
    } else if (is_view(line.what)) {
        return tensor_value(viewed(line.what, tensor_of(values.at((size_t)n.at(0))), std::vector<int64_t>(n.begin() + 1, n.end())));
    } else if (line.what == "empty" || line.what == "fill") {
        size_t skipped = line.what == "fill" ? 1 : 0;
        at::Tensor one = at::empty(std::vector<int64_t>(n.begin() + 1, n.end()), c10::TensorOptions((c10::ScalarType)n.at(0)).device(c10::kCUDA));
        if (skipped) one.fill_(line.number);
        return tensor_value(one);
    } else if (line.what == "copy") {
        return tensor_value(tensor_of(values.at((size_t)n.at(0))).clone(n.size() > 1 ? (c10::MemoryFormat)n[1] : c10::MemoryFormat::Preserve));
    } else if (line.what == "typed") {
        return tensor_value(tensor_of(values.at((size_t)n.at(0))).to((c10::ScalarType)n.at(1)));
    } else if (line.what == "packed") {
        // Python took it for contiguous, and may have chosen by that what it does.
        if (!tensor_of(values.at((size_t)n.at(0))).is_contiguous()) assay::operator_called("is_contiguous");
    } else if (line.what == "give") {
        const assay::Value &given = values.at((size_t)n.at(0));
        for (const assay::Value &one : given.kind == 'l' ? given.list : std::vector<assay::Value>{given})
            recorder().calls.back().returned.push_back(in_json(tensor_of(one)));
    } else if (line.what == "begin") {
        begin_call();
    }
    return made;
}

} // namespace

namespace assay {

void add(Function *made) { functions().push_back(made); }
void wrong_kind(const char *wanted, const Value &value) {
    const char *is = value.kind == 'n' ? "None" : value.kind == 't' ? "a tensor" : value.kind == 's' ? "a text" : value.kind == 'l' ? "a list" : value.kind == 'i' ? "an integer" : value.kind == 'b' ? "a bool" : "a floating-point number";
    check_failed(said("incompatible function arguments: ", is, " where ", wanted, " belongs"));
}

const bool described_without_initialisers = false;

std::string description() {
    std::string made = "{\"functions\": [";
    for (size_t i = 0; i < functions().size() && i < 64; i++) {
        const assay::Function &f = *functions()[i];
        made += (i ? ",\n" : "") + std::string("{\"name\": ") + assay::quoted(f.name) + ", \"parameters\": [";
        for (size_t k = 0; k < f.parameters.size() && k < 64; k++)
            made += (k ? ", " : "") + std::string("{\"kind\": ") + assay::quoted(f.parameters[k].kind) + ", \"name\": " + assay::quoted(f.parameters[k].name) +
                    ", \"has_default\": " + (f.parameters[k].has_default ? "true" : "false") + "}";
        made += "]}";
    }
    return made + "]}\n";
}

void read_call(Words &in) {
    script = new std::vector<Line>;
    for (long long count = in.number(); count > 0; count--) {
        Line line;
        line.what = in.next();
        if (line.what == "float" || line.what == "fill") line.number = strtod(in.next(), nullptr);
        if (line.what == "text" || line.what == "call") line.text = from_hex(in.next());
        for (long long many = in.number(); many > 0; many--) line.numbers.push_back(in.number());
        script->push_back(line);
    }
}

void call() {
    std::vector<assay::Value> values;
    try {
        for (const Line &line : *script) values.push_back(carried_out(line, values));
    } catch (const std::exception &error) {
        refuse("threw", "", 0, error.what());
    } catch (...) {
        refuse("threw", "", 0, "an exception of an unknown type");
    }
}

} // namespace assay
