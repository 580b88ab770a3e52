#include "daemon/worker/native/nvrtc_library.h"

#include <absl/strings/str_replace.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace kiln {
namespace {

// As NVRTC's C interface has them; stable since CUDA 7.
using NvrtcProgram = void*;
using NvrtcResult = int;
constexpr NvrtcResult kNvrtcSuccess = 0;
constexpr NvrtcResult kNvrtcOutOfMemory = 1;
constexpr NvrtcResult kNvrtcInternalError = 11;

std::string NvrtcLoadError() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown" : text;
}

std::vector<const char*> CStrings(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  for (const std::string& each : strings) pointers.push_back(each.c_str());
  return pointers;
}

// libnvrtc opens its built-ins by name only, wherever the loader finds some: these have to be there
// first.
absl::Status OpenBuiltins(const std::string& library) {
  std::error_code error;
  const auto folder = std::filesystem::path(library).parent_path();
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    // The one with its whole version: libnvrtc-builtins.so.12.9.
    if (name.rfind("libnvrtc-builtins.so.", 0) == 0) found.push_back(it->path().string());
  }
  if (found.empty()) return FailedPrecondition("no libnvrtc-builtins.so lies beside it");
  std::sort(found.begin(), found.end());
  if (::dlopen(found.back().c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return absl::OkStatus();
  return FailedPrecondition("its built-ins do not open: {}", NvrtcLoadError());
}

}  // namespace

struct NvrtcLibrary::Functions {
  NvrtcResult (*version)(int*, int*);
  NvrtcResult (*get_num_supported_archs)(int*);
  NvrtcResult (*get_supported_archs)(int*);
  const char* (*get_error_string)(NvrtcResult);
  NvrtcResult (*create_program)(NvrtcProgram*, const char*, const char*, int, const char* const*,
                                const char* const*);
  NvrtcResult (*destroy_program)(NvrtcProgram*);
  NvrtcResult (*add_name_expression)(NvrtcProgram, const char*);
  NvrtcResult (*compile_program)(NvrtcProgram, int, const char* const*);
  NvrtcResult (*get_lowered_name)(NvrtcProgram, const char*, const char**);
  using GetSize = NvrtcResult (*)(NvrtcProgram, size_t*);
  using Get = NvrtcResult (*)(NvrtcProgram, char*);
  GetSize get_log_size, get_ptx_size, get_cubin_size, get_ltoir_size;
  Get get_log, get_ptx, get_cubin, get_ltoir;

  absl::Status Load(void* library);
  std::string Error(NvrtcResult result) const { return get_error_string(result); }
  // "" where it has none.
  std::string Text(NvrtcProgram program, GetSize get_size, Get get) const;
};

absl::Status NvrtcLibrary::Functions::Load(void* library) {
  absl::Status status;
  const auto load = [&](const char* name, auto& function) {
    // NOLINTNEXTLINE: what dlsym returns is this function.
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) status = FailedPrecondition("it has no function {}", name);
  };
  load("nvrtcVersion", version);
  load("nvrtcGetNumSupportedArchs", get_num_supported_archs);
  load("nvrtcGetSupportedArchs", get_supported_archs);
  load("nvrtcGetErrorString", get_error_string);
  load("nvrtcCreateProgram", create_program);
  load("nvrtcDestroyProgram", destroy_program);
  load("nvrtcAddNameExpression", add_name_expression);
  load("nvrtcCompileProgram", compile_program);
  load("nvrtcGetLoweredName", get_lowered_name);
  load("nvrtcGetProgramLogSize", get_log_size);
  load("nvrtcGetProgramLog", get_log);
  load("nvrtcGetPTXSize", get_ptx_size);
  load("nvrtcGetPTX", get_ptx);
  load("nvrtcGetCUBINSize", get_cubin_size);
  load("nvrtcGetCUBIN", get_cubin);
  load("nvrtcGetLTOIRSize", get_ltoir_size);
  load("nvrtcGetLTOIR", get_ltoir);
  return status;
}

std::string NvrtcLibrary::Functions::Text(NvrtcProgram program, GetSize get_size, Get get) const {
  size_t size = 0;
  if (get_size(program, &size) != kNvrtcSuccess || size == 0) return "";
  std::string text(size, '\0');
  return get(program, text.data()) == kNvrtcSuccess ? text : "";
}

absl::StatusOr<std::unique_ptr<NvrtcLibrary>> NvrtcLibrary::Open(const std::string& path) {
  KILN_RETURN_IF_ERROR(OpenBuiltins(path));
  // Never closed: it lives as long as its process.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return FailedPrecondition("it does not open: {}", NvrtcLoadError());
  auto functions = std::make_shared<Functions>();
  KILN_RETURN_IF_ERROR(functions->Load(library));
  int major = 0;
  int minor = 0;
  if (functions->version(&major, &minor) != kNvrtcSuccess) {
    return FailedPrecondition("it does not tell its version");
  }
  return std::unique_ptr<NvrtcLibrary>(
      new NvrtcLibrary(std::move(functions), fmt::format("{}.{}", major, minor)));
}

absl::StatusOr<std::vector<int>> NvrtcLibrary::Architectures() const {
  int count = 0;
  if (functions_->get_num_supported_archs(&count) != kNvrtcSuccess || count < 0) {
    return FailedPrecondition("it does not tell its architectures");
  }
  std::vector<int> architectures(static_cast<size_t>(count));
  if (functions_->get_supported_archs(architectures.data()) != kNvrtcSuccess) {
    return FailedPrecondition("it does not tell its architectures");
  }
  return architectures;
}

absl::StatusOr<NvrtcOutput> NvrtcLibrary::Compile(const NvrtcInput& input) const {
  std::vector<std::string> names;
  std::vector<std::string> contents;
  for (const SourceHeader& header : input.headers) {
    names.push_back(header.name);
    contents.push_back(header.text);
  }
  NvrtcProgram program = nullptr;
  const NvrtcResult created = functions_->create_program(
      &program, input.source.c_str(), input.name.c_str(), static_cast<int>(names.size()),
      CStrings(contents).data(), CStrings(names).data());
  if (created != kNvrtcSuccess) {
    return Internal("NVRTC takes no program: {}", functions_->Error(created));
  }
  struct Destroyer {
    const Functions& functions;
    NvrtcProgram& program;
    ~Destroyer() { functions.destroy_program(&program); }
  } const destroyer{*functions_, program};

  NvrtcOutput output;
  for (const std::string& expression : input.name_expressions) {
    const NvrtcResult added = functions_->add_name_expression(program, expression.c_str());
    if (added != kNvrtcSuccess) return Internal("NVRTC: {}", functions_->Error(added));
  }
  const std::vector<const char*> arguments = CStrings(input.arguments);
  const NvrtcResult result =
      functions_->compile_program(program, static_cast<int>(arguments.size()), arguments.data());
  output.log = functions_->Text(program, functions_->get_log_size, functions_->get_log);
  while (!output.log.empty() && output.log.back() == '\0') output.log.pop_back();
  // These words tell which of the files are there that the jail hides.
  absl::StrReplaceAll({{": Permission denied", ""}, {": Not a directory", ""}}, &output.log);
  if (result != kNvrtcSuccess) {
    output.problem = functions_->Error(result);
    output.ran_out = result == kNvrtcOutOfMemory || result == kNvrtcInternalError;
    return output;
  }
  output.compiled = true;
  output.ptx = functions_->Text(program, functions_->get_ptx_size, functions_->get_ptx);
  // A C string, of which the NUL is part; where there is no PTX, it is nothing but that.
  while (!output.ptx.empty() && output.ptx.back() == '\0') output.ptx.pop_back();
  output.cubin = functions_->Text(program, functions_->get_cubin_size, functions_->get_cubin);
  output.ltoir = functions_->Text(program, functions_->get_ltoir_size, functions_->get_ltoir);
  for (const std::string& expression : input.name_expressions) {
    const char* lowered = nullptr;
    if (functions_->get_lowered_name(program, expression.c_str(), &lowered) != kNvrtcSuccess) {
      return Internal("NVRTC tells no name for '{}'", expression);
    }
    output.lowered_names.emplace_back(lowered);
  }
  return output;
}

}  // namespace kiln
