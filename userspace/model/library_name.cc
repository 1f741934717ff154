#include "model/library_name.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace cowprof {

std::string LibraryOf(absl::string_view file, absl::string_view function) {
  if (absl::StartsWith(file, "<__array_function__ ")) return "numpy";
  if (absl::StartsWith(file, "<attrs generated ")) return "attrs";
  if (absl::StartsWith(file, "<decorator-gen-")) return "decorator";
  if (file == "<string>" && absl::StartsWith(function, "__create_fn__.")) return "dataclasses";
  if (absl::ConsumePrefix(&file, "<frozen ")) return std::string(file.substr(0, file.find_first_of(".>")));
  size_t at = absl::string_view::npos;
  for (const absl::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    if (const size_t found = file.rfind(folder); found != absl::string_view::npos) at = found + folder.size();
  }
  if (at == absl::string_view::npos) {
    for (const absl::string_view folder : {"/lib/python", "/lib64/python"}) {
      size_t end = file.find(folder);
      if (end == absl::string_view::npos) continue;
      end = file.find_first_not_of("0123456789.t", end + folder.size());
      if (end != absl::string_view::npos && file[end] == '/') at = end + 1;
    }
  }
  if (at == absl::string_view::npos) return "";
  file.remove_prefix(at);
  return std::string(file.substr(0, file.find_first_of("/.")));
}

bool EndsInFile(absl::string_view file, absl::string_view end) {
  if (absl::EndsWith(file, end)) return true;
  if (!absl::ConsumePrefix(&end, "/multiprocessing/") || !absl::ConsumeSuffix(&file, end)) return false;
  // A program may have a folder of its own that is called multiprocess.
  return absl::EndsWith(file, "-packages/multiprocess/") || absl::EndsWith(file, "/billiard/");
}

}  // namespace cowprof
