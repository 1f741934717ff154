// interpreter.cc with unsupported versions and misleading symbols. recorded_test.cc tests real interpreters.
#include "python/interpreter.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "absl/strings/match.h"
#include "python/debug_offsets.h"
#include "python/process_memory.h"
#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kBss = 0x80000, kRuntime = 0x90000, kVersion = 0xa0000;

PythonModule ModuleOf(const std::string& path = "/usr/bin/trainer") {
  PythonModule module;
  module.path = path;
  module.type_type = PythonMemory::kTypeType;
  module.code_type = PythonMemory::kCodeType;
  module.runtime = kRuntime;
  module.bss_begin = kBss;
  module.bss_end = kBss + 4096;
  return module;
}

std::string VersionText(const std::string& text) { return text + std::string(4096 - text.size(), '\0'); }

}  // namespace

TEST_CASE("python interpreter: the version from the text of Py_GetVersion()") {
  PythonMemory memory;
  const size_t at = GENERATE(size_t{0}, 1, 1000, 3000);
  const std::string text = std::string(at, '\0') + "3.8.18 (default, May  9 2026, 10:00:00) \n[GCC 12.2.0]";
  memory.Add(kBss, VersionText(text));
  const auto interpreter = ReadInterpreter(ModuleOf(), memory);
  REQUIRE(interpreter.ok());
  CHECK(interpreter->version == "3.8.18");
  CHECK(interpreter->version_hex == 0x03081200);
  CHECK(interpreter->layout.minor == 8);
  CHECK_FALSE(interpreter->ready);  // _PyRuntime can't be read
}

TEST_CASE("python interpreter: a text across two chunks of the search") {
  PythonMemory memory;
  PythonModule module = ModuleOf();
  module.bss_end = kBss + (3 << 16);
  module.runtime = 0;
  for (int back = 1; back < 60; back += 7) {
    std::string bss(3 << 16, '\0');
    const std::string text = "3.9.2 (default, Feb 28 2021, 17:03:44) \n[GCC 10.2.1]";
    bss.replace((1 << 16) - back, text.size(), text);
    memory.Add(kBss, bss);
    CHECK(ReadInterpreter(module, memory)->version == "3.9.2");
  }
}

TEST_CASE("python interpreter: texts that are not a version") {
  PythonMemory memory;
  const std::string text =
      GENERATE(as<std::string>(), "", "3.8", "3.8.18", "3.8.18 (default", "3.8.x (a) [b]", "3..1 (a) [b]",
               "13.8.18 (a) [b]", "x3.8.18 (a) [b]", "3.999.1 (a) [b]", "3.8.9999 (a) [b]", "4.8.1 (a) [b]");
  memory.Add(kBss, VersionText(text));
  const auto interpreter = ReadInterpreter(ModuleOf(), memory);
  REQUIRE(interpreter.ok());
  CHECK(interpreter->version.empty());
  CHECK_FALSE(interpreter->ready);
}

TEST_CASE("python interpreter: the file's name is the last resort") {
  PythonMemory memory;
  PythonModule module = ModuleOf("/usr/lib/libpython3.9.so.1.0");
  module.minor_of_path = 9;
  const auto interpreter = ReadInterpreter(module, memory);
  REQUIRE(interpreter.ok());
  CHECK(interpreter->version == "3.9");
  CHECK(interpreter->version_hex == 0x03090000);
  CHECK(interpreter->layout.runtime.tss_key == 588);
}

TEST_CASE("python interpreter: versions that can't be used are named, with the reason") {
  PythonMemory memory;
  PythonModule module = ModuleOf();
  const auto fails = [&](absl::string_view version, absl::string_view why) {
    const absl::Status status = ReadInterpreter(module, memory).status();
    INFO(status.ToString());
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(absl::StrContains(status.message(), version));
    CHECK(absl::StrContains(status.message(), why));
    CHECK(absl::StrContains(status.message(), "/usr/bin/trainer"));
  };
  memory.Add(kBss, VersionText("2.7.18 (default, May  9 2026) \n[GCC 12.2.0]"));
  fails("2.7.18", "Python 3 only");
  memory.Add(kBss, VersionText("3.5.10 (default, May  9 2026) \n[GCC 12.2.0]"));
  fails("3.5.10", "older");
  module.py_version = kVersion;
  memory.Word(kVersion, 0x031000f0);
  fails("3.16.0", "newer");
  memory.Word(kVersion, 0x030e00a1);
  fails("3.14.0", "alphas");
  // A newer version with a table: recognized by it, but its order is unknown.
  std::string table(kDebugOffsetsBytes, '\0');
  const uint64_t head[] = {0x030002f0 | (kNewestMinor + 1) << 16, 0};
  memcpy(&table[0], "xdebugpy", 8);
  memcpy(&table[8], head, sizeof(head));
  memory.Add(kRuntime, table);
  module.py_version = 0;
  fails(absl::StrCat("3.", kNewestMinor + 1, ".2"), "does not know yet");
  // 3.11 whose PyCode_Type is not a type.
  module.py_version = kVersion;
  memory.Word(kVersion, 0x030b02f0);
  memory.Add(kRuntime, std::string(kDebugOffsetsBytes, '\0'));
  CHECK(ReadInterpreter(module, memory).ok());
  module.code_type = 0;
  fails("3.11.2", "PyCode_Type");
}

TEST_CASE("python interpreter: the search for the state of 3.6 is bounded") {
  // Zeroed data that is full of pointers to an object.
  constexpr uint64_t kBytes = 4 << 20;
  class Pointers : public PythonMemory {
   public:
    bool Read(uint64_t address, absl::Span<char> bytes) const override {
      followed += address == kTypeType && bytes.size() == 16 ? 1 : 0;
      if (address < kBss || address >= kBss + kBytes) return PythonMemory::Read(address, bytes);
      for (size_t i = 0; i + 8 <= bytes.size(); i += 8) memcpy(&bytes[i], &kTypeType, 8);
      return true;
    }
    mutable size_t followed = 0;
  };
  const Pointers memory;
  PythonModule module = ModuleOf("/usr/bin/python3.6");
  module.minor_of_path = 6;
  module.runtime = 0;
  module.bss_end = kBss + kBytes;
  const auto interpreter = ReadInterpreter(module, memory);
  REQUIRE(interpreter.ok());
  CHECK(interpreter->version == "3.6");
  CHECK_FALSE(interpreter->ready);
  CHECK(memory.followed > 8192);  // as many as the method cache has
  CHECK(memory.followed <= 32768);
}

TEST_CASE("python interpreter: a program's copy of PyType_Type leads to the one in use") {
  PythonMemory memory;
  PythonModule module = ModuleOf();
  module.py_version = kVersion;
  memory.Word(kVersion, 0x030b02f0);
  memory.AddType(0x70000, PythonMemory::kTypeType, "type", PythonMemory::kMetaFlags);
  module.type_type = 0x70000;
  const auto interpreter = ReadInterpreter(module, memory);
  REQUIRE(interpreter.ok());
  CHECK(interpreter->type_type == PythonMemory::kTypeType);
}

TEST_CASE("python interpreter: objects with a longer header are recognized") {
  // Py_TRACE_REFS: PyType_Type's own type is at 24.
  for (const uint32_t version : {0x030704f0u, 0x030b02f0u}) {
    PythonMemory memory;
    for (const uint64_t type : {PythonMemory::kTypeType, PythonMemory::kCodeType}) {
      memory.Add(type, std::string(900, '\0'));
      memory.Word(type + 24, PythonMemory::kTypeType);
    }
    memory.Word(kVersion, version);
    PythonModule module = ModuleOf();
    module.py_version = kVersion;
    const auto interpreter = ReadInterpreter(module, memory);
    REQUIRE(interpreter.ok());
    CHECK(interpreter->trace_refs);
    CHECK_FALSE(interpreter->free_threaded);
    CHECK(interpreter->layout.object.type == 24);
    CHECK(interpreter->layout.type.name == 40);
    CHECK(interpreter->layout.string.length == 32);
    const bool has_frame_objects = version == 0x030704f0u;
    CHECK(interpreter->layout.frame.code == (has_frame_objects ? 48 : 32));
    CHECK(interpreter->layout.code.qualname == (has_frame_objects ? kNoOffset : 144));
  }
  PythonMemory memory;
  for (const uint64_t type : {PythonMemory::kTypeType, PythonMemory::kCodeType}) {
    memory.Add(type, std::string(900, '\0'));
    memory.Word(type + 24, PythonMemory::kTypeType);
  }
  memory.Word(kVersion, 0x030e04f0);
  PythonModule module = ModuleOf();
  module.py_version = kVersion;
  const auto interpreter = ReadInterpreter(module, memory);
  REQUIRE(interpreter.ok());
  CHECK(interpreter->free_threaded);
  CHECK(interpreter->pool_bytes == 0);
  CHECK(interpreter->layout.gc_head_bytes == 0);
  CHECK(interpreter->layout.code.thread_local_code == 224);
}

TEST_CASE("python interpreter: up to 3.7 sys.modules says how long a GC head is, and what moves with it") {
  constexpr uint64_t kInterpreter = 0x40000, kThread = 0x41000, kModules = 0x7f0000010048, kOther = 0x7f0000020000;
  constexpr uint64_t kHead = 0xb0000;
  // `linked`: where the head of sys.modules is, before the dict; 0: it is in no list of a collector.
  const auto read = [](uint32_t version, uint64_t linked) {
    PythonMemory memory;
    PythonModule module = ModuleOf();
    module.py_version = kVersion;
    memory.Word(kVersion, version);
    const PythonLayout layout = LayoutOf(version >> 16 & 0xff, version >> 8 & 0xff, false);
    if (layout.minor == 6) module.runtime = 0, module.interp_head = kHead;
    memory.Word(layout.minor == 6 ? kHead : kRuntime + layout.runtime.interpreters_main, kInterpreter);
    memory.Word(kInterpreter + layout.interpreter.threads_head, kThread);
    memory.Word(kThread + layout.thread.interpreter, kInterpreter);
    memory.Word(kInterpreter + layout.interpreter.modules, kModules);
    memory.Add(kModules - 40, std::string(48, '\0'));
    if (linked != 0) {
      for (const uint64_t link : {0, 8}) {
        memory.Word(kModules - linked + link, kOther);
        memory.Word(kOther + link, kModules - linked);
      }
    }
    const auto interpreter = ReadInterpreter(module, memory);
    REQUIRE(interpreter.ok());
    CHECK(interpreter->ready);
    return *interpreter;
  };
  for (const uint32_t version : {0x030609f0u, 0x03060ff0u, 0x030703f0u, 0x030704f0u, 0x030710f0u}) {
    for (const uint32_t bytes : {24u, 32u}) {
      const Interpreter interpreter = read(version, bytes);
      CHECK(interpreter.layout.gc_head_bytes == bytes);
      if (interpreter.layout.minor == 6) continue;
      CHECK(interpreter.layout.runtime.tss_key == (bytes == 24 ? 1420 : 1508));
      CHECK(interpreter.collecting_address == kRuntime + (bytes == 24 ? 544 : 632));
      CHECK(interpreter.enabled_address == kRuntime + (bytes == 24 ? 324 : 332));
      CHECK(FullCollectionsAddress(interpreter) == kRuntime + (bytes == 24 ? 520 : 608));
    }
    for (const uint64_t linked : {0, 16, 40}) CHECK(read(version, linked).layout.gc_head_bytes == 0);
  }
  CHECK(read(0x030812f0, 0).layout.gc_head_bytes == 16);
}

TEST_CASE("python interpreter: where full collections are counted") {
  Interpreter interpreter;
  interpreter.collecting_address = 0x1000;
  const auto address = [&](uint32_t minor, uint32_t micro) {
    interpreter.layout.minor = minor;
    interpreter.version_hex = 3u << 24 | minor << 16 | micro << 8 | 0xf0;
    return FullCollectionsAddress(interpreter);
  };
  CHECK(address(6, 15) == 0);
  for (const uint32_t minor : {7u, 8u, 11u, 13u}) CHECK(address(minor, 0) == 0x1000 - 24);
  for (const uint32_t micro : {0u, 4u}) CHECK(address(14, micro) == 0);  // the incremental collector
  for (const uint32_t micro : {5u, 10u}) CHECK(address(14, micro) == 0x1000 - 24);
  interpreter.collecting_address = 0;
  CHECK(address(11, 2) == 0);
}

TEST_CASE("python interpreter: where the permanent generation is") {
  Interpreter interpreter;
  interpreter.collecting_address = 0x1000;
  const auto address = [&](uint32_t minor, uint32_t head) {
    interpreter.layout.minor = minor;
    interpreter.layout.gc_head_bytes = head;
    return PermanentGenerationAddress(interpreter);
  };
  CHECK(address(6, 32) == 0);  // it has no gc.freeze()
  CHECK(address(7, 24) == 0x1000 - 104);
  CHECK(address(7, 32) == 0x1000 - 120);
  CHECK(address(7, 0) == 0);
  for (const uint32_t minor : {8u, 11u, 14u}) CHECK(address(minor, 16) == 0x1000 - 96);
  interpreter.free_threaded = true;
  CHECK(address(13, 16) == 0);
  interpreter = {};
  CHECK(PermanentGenerationAddress(interpreter) == 0);
}

TEST_CASE("python interpreter: a process without Python, and no process") {
  const ProcFs proc;
  ProgramFiles files;
  const ProcessMemory memory(getpid(), ProcFs(), &files);
  CHECK(absl::IsNotFound(FindInterpreter(proc, getpid(), memory).status()));
  CHECK(absl::IsNotFound(FindInterpreter(proc, 0x7fffffff, memory).status()));
}

}  // namespace cowprof
