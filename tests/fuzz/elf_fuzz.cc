// An interpreter's or library's file from the target's own file system: headers, sections, symbols, needed libraries;
// and mangled names, whose demangled text can be disproportionately long.
#include "fuzz.h"
#include "source/elf_file.h"
#include "source/native_symbols.h"

namespace cowprof {
namespace {

void FuzzFile(absl::string_view bytes) {
  static MemoryFile memory;
  memory.Set(bytes);
  absl::StatusOr<ElfFile> file = ElfFile::Open(memory.path());
  if (!file.ok()) return;
  const auto found = file->FindSymbols({"PyType_Type", "_PyRuntime", "PyType_Type", ""});
  Require(found[0] == found[2], "a name may be requested twice");
  static_cast<void>(file->FindSection(".PyRuntime"));
  for (const ElfSegment& segment : file->segments()) {
    for (const uint64_t offset : {uint64_t{0}, segment.offset, segment.offset + segment.file_bytes}) {
      const std::optional<uint64_t> address = file->AddressOfOffset(offset);
      if (address) file->FunctionAt(*address);
    }
  }
  for (const auto& symbol : found) {
    if (symbol) Demangle(file->FunctionAt(symbol->address + symbol->bytes / 2));
  }
  // An entry of 16 bytes can stand for a needed library with a name of 255.
  Require(file->index_bytes() <= 24 * bytes.size() + 4096, "the index is not much larger than the tables");
}

void FuzzName(const std::string& name) { Require(Demangle(name).size() <= 1000, "a name is short"); }

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const size_t parser = cowprof::PickOne(&input, 2);
  const std::string bytes = input.ConsumeRemainingBytesAsString();
  if (parser == 0) cowprof::FuzzFile(bytes);
  if (parser == 1) cowprof::FuzzName(bytes);
  return 0;
}
