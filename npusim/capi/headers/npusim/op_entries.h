/* What the simulator calls in the library of a project's host code. Included once, in a file of its own. */
#ifndef NPUSIM_OP_ENTRIES_H
#define NPUSIM_OP_ENTRIES_H

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>

#include "log/log.h"
#include "npusim/op_host.h"

#define NPUSIM_ENTRY extern "C" __attribute__((visibility("default")))

/* @npusim_op@ */

/* What was called and isn't among the sources, where there is such a function. */
extern "C" __attribute__((weak)) const char *npusim_missing;

namespace npusim {

static int64_t (*ask_chip)(int);
static int (*ask_matmul)(const int64_t *, int32_t *);
static std::string told;

inline const std::vector<std::unique_ptr<ops::OpDef>> &definitions()
{
    static const auto made = [] {
        std::vector<std::unique_ptr<ops::OpDef>> all;
        for (MakeOperator make : operators()) {
            ops::OpDef &op = *all.emplace_back(make());
            auto found = implementations().find(op.type);
            if (found == implementations().end()) continue;
            const Implementation &told = found->second;
            if (told.tiling) op.core.tiling = told.tiling;
            if (told.parse) op.core.parse = told.parse;
            if (told.infer_shape) op.infer_shape = told.infer_shape;
            if (told.infer_type) op.infer_type = told.infer_type;
            for (int32_t place : told.valued) if (size_t(place) < op.inputs.size()) op.inputs[size_t(place)]->valued = true;
        }
        return all;
    }();
    return made;
}

template <typename List, typename Show> void listed(std::ostream &out, const List &all, Show show)
{
    out << '[';
    for (size_t place = 0; place < all.size(); place++) {
        out << (place ? "," : "");
        show(all[place]);
    }
    out << ']';
}

inline std::string described()
{
    std::ostringstream out;
    auto number = [&](auto value) { out << int64_t(value); };
    auto word = [&](const std::string &value) {
        out << '"';
        for (char letter : value) out << (letter == '"' || letter == '\\' ? "\\" : "") << letter;
        out << '"';
    };
    auto tensor = [&](const auto &each) {
        out << "{\"name\":";
        word(each->name);
        out << ",\"option\":" << each->option << ",\"valued\":" << each->valued << ",\"dtypes\":";
        listed(out, each->types, number);
        out << ",\"follows\":";
        word(each->followed);
        out << ",\"formats\":";
        listed(out, each->formats, number);
        out << '}';
    };
    auto attribute = [&](const auto &each) {
        out << "{\"name\":";
        word(each->name);
        out << ",\"kind\":\"" << each->kind << "\",\"required\":" << (each->option == ops::REQUIRED) << ",\"has_default\":" << each->has_default << ",\"number\":" << each->number << ",\"text\":";
        word(each->words);
        out << ",\"list\":";
        listed(out, each->list, number);
        out << '}';
    };
    listed(out, definitions(), [&](const auto &op) {
        out << "{\"name\":";
        word(op->type);
        out << ",\"inputs\":";
        listed(out, op->inputs, tensor);
        out << ",\"outputs\":";
        listed(out, op->outputs, tensor);
        out << ",\"attributes\":";
        listed(out, op->attributes, attribute);
        out << ",\"socs\":";
        listed(out, op->core.configs, [&](const auto &config) {
            out << "{\"name\":";
            word(config.first);
            out << ",\"inputs\":";
            listed(out, config.second.inputs, tensor);
            out << ",\"outputs\":";
            listed(out, config.second.outputs, tensor);
            out << '}';
        });
        out << ",\"tiling\":" << bool(op->core.tiling) << ",\"infer_shape\":" << bool(op->infer_shape) << ",\"infer_type\":" << bool(op->infer_type) << '}';
    });
    return out.str();
}

inline void fill(gert::Context &context, const npusim_op_call_t &call)
{
    const ops::OpDef &op = *definitions()[size_t(call.op)];
    context.type = op.type.c_str();
    for (int place = 0; place < call.inputs + call.outputs; place++) {
        const npusim_op_tensor_t &given = call.tensors[place];
        gert::CompileTimeTensorDesc description;
        description.type = ge::DataType(given.dtype), description.format = ge::Format(given.format);
        gert::Shape shape;
        for (int axis = 0; axis < given.rank; axis++) shape.AppendDim(given.dims[axis]);
        if (place < call.inputs) {
            context.input_descriptions.push_back(description);
            context.inputs.emplace_back(given.present ? new gert::Tensor(shape, description, given.data) : nullptr);
        } else {
            context.output_descriptions.push_back(description);
            context.outputs.emplace_back(shape);
            context.output_tensors.emplace_back(shape, description, nullptr);
        }
    }
    context.node.type = context.type, context.node.inputs = size_t(call.inputs), context.node.outputs = size_t(call.outputs);
    for (int place = 0; place < call.parameters; place++) {
        gert::AnchorInstanceInfo among;
        among.start = place ? context.node.parameters.back().start + context.node.parameters.back().count : 0;
        among.count = size_t(call.counts[place]);
        context.node.parameters.push_back(among);
    }
    size_t lists = 0, singles = 0; /* lists of results are equally long */
    for (const auto &each : op.outputs) (each->option == ops::DYNAMIC ? lists : singles)++;
    for (const auto &each : op.outputs) {
        gert::AnchorInstanceInfo among;
        among.start = context.node.results.empty() ? 0 : context.node.results.back().start + context.node.results.back().count;
        among.count = each->option == ops::DYNAMIC ? (size_t(call.outputs) - singles) / lists : 1;
        context.node.results.push_back(among);
    }
    for (int place = 0; place < call.attributes; place++) {
        const npusim_op_attribute_t &given = call.values[place];
        gert::RuntimeAttrs::Value value;
        value.given = given.given, value.whole = given.whole, value.real = float(given.real), value.flag = given.whole != 0;
        if (given.text) value.text = given.text;
        value.ints = {given.list, size_t(given.count)};
        context.attributes.values.push_back(value);
    }
}

/* Somebody else's code on our stack: a signal or an exception in it ends the call, not the program. */
static sigjmp_buf way_out;
static void leave_call(int signal) { siglongjmp(way_out, signal); }

template <typename Work> int guarded(Work work)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction before[5], own = {};
    own.sa_handler = leave_call, own.sa_flags = SA_NODEFER;
    for (int each = 0; each < 5; each++) sigaction(signals[each], &own, &before[each]);
    std::streambuf *shown = std::cout.rdbuf(std::cerr.rdbuf());
    int status = 0;
    told.clear(), refusal().clear();
    if (int signal = sigsetjmp(way_out, 1)) {
        if (signal == SIGABRT && &npusim_missing && npusim_missing)
            told = std::string("it calls ") + npusim_missing + ", which isn't among its sources (code for another product?)", npusim_missing = nullptr;
        else told = signal == SIGFPE ? "it divides by zero" : signal == SIGABRT ? "it calls abort" : "it uses memory that isn't there (a null pointer: an input or attribute that this call leaves out?)";
        status = 2;
    } else {
        try {
            status = work() != 0;
            if (status) told = refusal();
        } catch (const std::exception &problem) {
            told = std::string("it throws: ") + problem.what(), status = 2;
        } catch (...) {
            told = "it throws", status = 2;
        }
    }
    std::cout.rdbuf(shown);
    for (int each = 0; each < 5; each++) sigaction(signals[each], &before[each], nullptr);
    return status;
}

} // namespace npusim

extern "C" int64_t npusim_chip(int what) { return npusim::ask_chip(what); }
extern "C" int npusim_matmul_tiling(const int64_t *given, int32_t *found) { return npusim::ask_matmul(given, found); }

NPUSIM_ENTRY void npusim_op_answers(int64_t (*chip)(int), int (*matmul)(const int64_t *, int32_t *)) { npusim::ask_chip = chip, npusim::ask_matmul = matmul; }
NPUSIM_ENTRY const char *npusim_op_message() { return npusim::told.c_str(); }

NPUSIM_ENTRY const char *npusim_op_describe()
{
    static std::string words;
    if (npusim::guarded([] { return words = npusim::described(), 0; })) return "";
    return words.c_str();
}

/* 0, 1 where the function says that it failed, 2 where it broke (npusim_op_message says how). */
NPUSIM_ENTRY int npusim_op_tile(npusim_op_call_t *call)
{
    static std::unique_ptr<gert::TilingContext> context;
    context.reset(new gert::TilingContext);
    npusim::fill(*context, *call);
    int status = npusim::guarded([&] {
        const ops::OpAICoreDef &core = npusim::definitions()[size_t(call->op)]->core;
        gert::TilingParseContext parsed;
        parsed.type = context->type;
        if (core.parse && core.parse(&parsed)) return ge::GRAPH_FAILED;
        context->compiled = parsed.made;
        return core.tiling(context.get());
    });
    call->blocks = context->blocks, call->key = context->key;
    call->tiling = context->tiling.GetData(), call->tiling_bytes = context->tiling.GetDataSize();
    call->workspace_bytes = 0;
    for (size_t each : context->workspaces) call->workspace_bytes += each;
    return status;
}

/* The shapes and dtypes of the outputs; those that only the other function knows stay as they are. */
NPUSIM_ENTRY int npusim_op_infer(npusim_op_call_t *call)
{
    const ops::OpDef &op = *npusim::definitions()[size_t(call->op)];
    npusim_op_tensor_t *outputs = call->tensors + call->inputs;
    if (op.infer_shape) {
        gert::InferShapeContext context;
        npusim::fill(context, *call);
        if (int status = npusim::guarded([&] { return op.infer_shape(&context); })) return status;
        for (int place = 0; place < call->outputs; place++) {
            const gert::Shape &shape = context.outputs[size_t(place)].GetStorageShape();
            outputs[place].rank = int32_t(shape.GetDimNum());
            for (int axis = 0; axis < outputs[place].rank; axis++) outputs[place].dims[axis] = shape.GetDim(size_t(axis));
        }
    }
    if (op.infer_type) {
        gert::InferDataTypeContext context;
        npusim::fill(context, *call);
        if (int status = npusim::guarded([&] { return op.infer_type(&context); })) return status;
        for (int place = 0; place < call->outputs; place++) outputs[place].dtype = context.output_descriptions[size_t(place)].type;
    }
    return 0;
}

#endif
