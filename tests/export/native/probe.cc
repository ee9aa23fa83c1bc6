// Answers requests from an exported version with no Python in the process.
//
//     probe VERSION_DIR REQUESTS [--op LIBRARY.so]... [--xla]
//
// It does what a TensorFlow model server does when it loads a version: it opens the SavedModel
// with the same loader (TF_LoadSessionFromSavedModel), refuses XLA unless `--xla` is given, and
// runs every request of a warm-up file (a TFRecord of PredictionLog messages). LIBRARY.so are op
// libraries, such as TensorFlow Text's. For each request it prints a line of JSON:
//
//     {"request": 0, "signature": "greedy", "outputs": {"length": {"dtype": 3, "shape": [2],
//      "values": [3, 5]}, "text": {"dtype": 7, "shape": [2], "values": ["<hex>", "<hex>"]}}}
//
// or {"request": 0, "error": "..."}. Exit status: 0, 1 if nothing could be run, 2 on wrong usage.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensors.h"
#include "wire.h"

// tensorflow_model_server calls it at its start, unless told to allow XLA.
namespace tensorflow {
void DisableXlaCompilation();
}

class Model {
 public:
  explicit Model(const std::string& directory) : graph_(TF_NewGraph()) {
    Owned<TF_SessionOptions> options(TF_NewSessionOptions());
    Owned<TF_Buffer> meta_graph(TF_NewBuffer());
    Owned<TF_Status> status(TF_NewStatus());
    const char* const tags[] = {"serve"};
    session_ = TF_LoadSessionFromSavedModel(options.get(), nullptr, directory.c_str(), tags, 1,
                                            graph_.get(), meta_graph.get(), status.get());
    Check(status, "loading " + directory);
    const auto* data = static_cast<const char*>(meta_graph->data);
    signatures_ = Signatures(Bytes(data, meta_graph->length));
  }

  ~Model() {
    Owned<TF_Status> status(TF_NewStatus());
    TF_CloseSession(session_, status.get());
    TF_DeleteSession(session_, status.get());
  }

  Model(const Model&) = delete;

  // Returns the outputs of a request as JSON.
  std::string Answer(const Request& request) const {
    const auto found = signatures_.find(request.signature);
    if (found == signatures_.end()) throw std::runtime_error("no signature " + request.signature);
    const Signature& signature = found->second;
    if (request.inputs.size() != signature.inputs.size()) {
      throw std::runtime_error("input size does not match signature " + request.signature);
    }
    std::vector<Owned<TF_Tensor>> owned;
    std::vector<TF_Output> fed, fetched;
    std::vector<TF_Tensor*> inputs;
    for (const auto& [alias, proto] : request.inputs) {
      fed.push_back(Endpoint(signature.inputs, alias));
      owned.push_back(ParseTensor(proto));
      inputs.push_back(owned.back().get());
    }
    std::vector<std::string> names = request.output_filter;
    for (const auto& [alias, name] : signature.outputs) {
      if (request.output_filter.empty()) names.push_back(alias);
    }
    for (const std::string& alias : names) fetched.push_back(Endpoint(signature.outputs, alias));
    std::vector<TF_Tensor*> outputs(fetched.size());
    Owned<TF_Status> status(TF_NewStatus());
    TF_SessionRun(session_, nullptr, fed.data(), inputs.data(), static_cast<int>(fed.size()),
                  fetched.data(), outputs.data(), static_cast<int>(fetched.size()), nullptr, 0,
                  nullptr, status.get());
    Check(status, "running " + request.signature);
    std::string json;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Owned<TF_Tensor> output(outputs[i]);
      json += (i ? ", " : "") + Quoted(names[i]) + ": " + Json(output.get());
    }
    return "{" + json + "}";
  }

 private:
  // "operation:3" in the graph, by the alias of an input or output.
  TF_Output Endpoint(const std::map<std::string, std::string>& names, const std::string& alias) const {
    const auto found = names.find(alias);
    if (found == names.end()) throw std::runtime_error("no input or output " + alias);
    const size_t colon = found->second.rfind(':');
    const std::string operation = found->second.substr(0, colon);
    const int index = colon == Bytes::npos ? 0 : atoi(found->second.c_str() + colon + 1);
    TF_Operation* const oper = TF_GraphOperationByName(graph_.get(), operation.c_str());
    if (oper == nullptr) throw std::runtime_error("no operation " + operation + " in the graph");
    return {oper, index};
  }

  Owned<TF_Graph> graph_;
  TF_Session* session_ = nullptr;
  std::map<std::string, Signature> signatures_;
};

int Run(const std::string& directory, const std::string& requests) {
  const Model model(directory);
  int number = 0;
  for (const Bytes& record : ReadRecords(requests)) {
    printf("{\"request\": %d, ", number++);
    try {
      const Request request = ParseRequest(record);
      const std::string outputs = model.Answer(request);
      printf("\"signature\": %s, \"outputs\": %s}\n", Quoted(request.signature).c_str(), outputs.c_str());
    } catch (const std::exception& error) {
      printf("\"error\": %s}\n", Quoted(error.what()).c_str());
    }
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: probe VERSION_DIR REQUESTS [--op LIBRARY.so]... [--xla]\n");
    return 2;
  }
  try {
    bool xla = false;
    for (int i = 3; i < count; ++i) {
      if (strcmp(arguments[i], "--xla") == 0) {
        xla = true;
      } else if (strcmp(arguments[i], "--op") == 0 && i + 1 < count) {
        Owned<TF_Status> status(TF_NewStatus());
        TF_LoadLibrary(arguments[++i], status.get());
        Check(status, std::string("loading ") + arguments[i]);
      } else {
        throw std::runtime_error(std::string("unknown argument ") + arguments[i]);
      }
    }
    if (!xla) tensorflow::DisableXlaCompilation();
    const bool python = dlsym(RTLD_DEFAULT, "Py_Initialize") != nullptr;
    fprintf(stderr, "TensorFlow %s, Python in this process: %s\n", TF_Version(), python ? "yes" : "no");
    return Run(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
