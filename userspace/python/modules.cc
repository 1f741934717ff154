// Finds the mapped files of a process that contain a CPython, and the addresses of their symbols (declared in
// interpreter.h). Opens files only; interpreter.cc interprets the symbols.
#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "model/base_name.h"
#include "python/interpreter.h"
#include "source/elf_file.h"
#include "source/native_symbols.h"

namespace cowprof {
namespace {

constexpr size_t kMaxOtherFiles = 512;

// "libpython3.11.so.1.0", "python3.11", "python3.13t": 11, 11, 13.
uint32_t MinorOfPath(absl::string_view path) {
  const absl::string_view name = BaseName(path);
  constexpr absl::string_view kMarker = "python3.";
  const size_t at = name.find(kMarker);
  uint32_t minor = 0;
  for (size_t i = at == name.npos ? name.size() : at + kMarker.size(); i < name.size(); ++i) {
    if (name[i] < '0' || name[i] > '9' || minor > 99) break;
    minor = minor * 10 + (name[i] - '0');
  }
  return minor;
}

// The addresses of a file that defines PyType_Type itself.
std::optional<PythonModule> ReadModule(const ElfFile& file, const Mapping& first) {
  constexpr absl::string_view kNames[] = {
      "PyType_Type", "PyCode_Type",          "_Py_NoneStruct",         "_PyRuntime",  "Py_Version",
      "collecting",  "_Py_NegativeRefcount", "_PyThreadState_Current", "interp_head", "autoTLSkey",
      "enabled"};
  const std::optional<uint64_t> bias = LoadBias(file, first);
  if (!bias) return std::nullopt;
  const auto found = file.FindSymbols(kNames);
  const auto address_of = [&](size_t i) { return found[i] ? found[i]->address + *bias : 0; };
  if (!found[0]) return std::nullopt;
  PythonModule module;
  module.path = first.name;
  module.minor_of_path = MinorOfPath(first.name);
  module.type_type = address_of(0);
  module.code_type = address_of(1);
  module.none = address_of(2);
  module.runtime = address_of(3);
  module.py_version = address_of(4);
  module.collecting = address_of(5);
  module.debug = found[6].has_value();
  module.thread_state_current = address_of(7);
  module.interp_head = address_of(8);
  module.auto_tls_key = address_of(9);
  module.enabled = address_of(10);
  if (module.runtime == 0) {
    const auto section = file.FindSection(".PyRuntime");
    if (section) module.runtime = section->address + *bias;
  }
  for (const ElfSegment& segment : file.segments()) {
    if (!segment.writable || segment.memory_bytes <= segment.file_bytes) continue;
    module.bss_begin = segment.address + segment.file_bytes + *bias;
    module.bss_end = segment.address + segment.memory_bytes + *bias;
  }
  return module;
}

// How likely a file contains the interpreter; 0 is most likely.
int RankOf(const Mapping& mapping, absl::string_view executable) {
  if (absl::StrContains(BaseName(mapping.name), "libpython")) return 0;
  if (mapping.name == executable || absl::StartsWith(BaseName(mapping.name), "python")) return 1;
  return 2;
}

// The first mapping of each file that has an executable mapping.
std::vector<Mapping> MappedPrograms(const std::vector<Mapping>& mappings) {
  std::vector<Mapping> programs;
  const Mapping* first = nullptr;
  for (const Mapping& mapping : mappings) {
    // The mappings of one file are consecutive, with its .bss and gaps between them.
    if (!absl::StartsWith(mapping.name, "/")) continue;
    if (first == nullptr || first->name != mapping.name) first = &mapping;
    if (mapping.executable && (programs.empty() || programs.back().begin != first->begin)) programs.push_back(*first);
  }
  return programs;
}

absl::Status CanNotOpen(absl::string_view path) {
  if (!absl::StrContains(BaseName(path), "libpython") && !absl::StartsWith(BaseName(path), "python")) {
    return absl::UnavailableError(
        absl::StrCat("its executable ", path, " can't be opened, so whether it runs Python is not known"));
  }
  const bool deleted = absl::EndsWith(path, " (deleted)");
  return absl::FailedPreconditionError(
      absl::StrCat("read CPython in ", path, ": ",
                   deleted ? "a deleted file can't be opened without CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN"
                           : "the file can't be opened"));
}

// nullopt: it has no CPython. The error is for an executable, or a file that is named like a CPython.
absl::StatusOr<std::optional<PythonModule>> OpenModule(const ProcFs& proc, pid_t pid, const Mapping& program,
                                                       bool is_executable) {
  std::vector<std::string> paths = PathsOfMapping(proc.PathOf(pid, ""), program);
  if (is_executable) paths.insert(paths.begin(), proc.PathOf(pid, "exe"));  // works even for a deleted file
  bool is_read = false, is_foreign = false;
  for (const std::string& path : paths) {
    const absl::StatusOr<ElfFile> file = ElfFile::Open(path);
    is_read |= absl::IsInvalidArgument(file.status());
    is_foreign |= absl::IsUnimplemented(file.status());
    if (!file.ok()) continue;
    // A program that needs libpython has at most copies of its objects.
    for (const std::string& needed : file->needed()) {
      if (absl::StartsWith(needed, "libpython")) return std::nullopt;
    }
    return ReadModule(*file, program);
  }
  if (is_foreign) {
    return absl::UnavailableError(
        absl::StrCat(program.name, " is not for x86-64, so whether it runs Python is not known"));
  }
  if (is_read) return std::nullopt;
  return CanNotOpen(program.name);
}

}  // namespace

absl::StatusOr<std::vector<PythonModule>> FindPythonModules(const ProcFs& proc, pid_t pid,
                                                            const std::vector<Mapping>& mappings,
                                                            FilesWithoutPython* without) {
  const std::string executable = proc.ReadExecutable(pid);
  std::vector<Mapping> programs = MappedPrograms(mappings);
  std::stable_sort(programs.begin(), programs.end(), [&executable](const Mapping& a, const Mapping& b) {
    return RankOf(a, executable) < RankOf(b, executable);
  });
  std::vector<PythonModule> modules;
  absl::Status unread;
  size_t others = 0;
  for (const Mapping& program : programs) {
    const int rank = RankOf(program, executable);
    const FilesWithoutPython::value_type key = {program.device, program.inode, program.begin};
    if (without != nullptr && without->contains(key)) continue;
    // Open other files only if no likely one has it: a process maps hundreds.
    if (rank == 2 && (!modules.empty() || ++others > kMaxOtherFiles)) break;
    absl::StatusOr<std::optional<PythonModule>> module = OpenModule(proc, pid, program, program.name == executable);
    if (!module.ok()) {
      if (rank < 2 && unread.ok()) unread = module.status();
    } else if (*module) {
      modules.push_back(**std::move(module));
    } else if (without != nullptr) {
      without->insert(key);
    }
  }
  if (modules.empty() && !unread.ok()) return unread;
  return modules;
}

}  // namespace cowprof
