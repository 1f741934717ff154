// The readers of userspace/python on recorded processes of every CPython version, compared with what those processes
// reported about themselves (tests/fixtures/python/README.md): stacks with lines, type names, objects. Also the same
// memory with holes and garbage, which may only degrade the answers.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "python/debug_offsets.h"
#include "python/objects.h"
#include "python_recording.h"

namespace cowprof {
namespace {

std::vector<std::string> FixturePaths() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(COWPROF_FIXTURES "/python")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  return paths;
}

PythonRecording Load(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  absl::StatusOr<PythonRecording> recording = ParseRecording(text.str());
  REQUIRE(recording.ok());
  return *std::move(recording);
}

// Another reader's memory with parts missing or changed.
class DamagedMemory : public MemoryReader {
 public:
  DamagedMemory(const MemoryReader& memory, unsigned seed, double lost, double changed)
      : memory_(memory), random_(seed), lost_(lost), changed_(changed) {}
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    std::uniform_real_distribution<double> chance;
    if (chance(random_) < lost_ || !memory_.Read(address, bytes)) return false;
    if (!bytes.empty() && chance(random_) < changed_) {
      for (int i = 0; i < 4; ++i) bytes[random_() % bytes.size()] = static_cast<char>(random_());
    }
    return true;
  }

 private:
  const MemoryReader& memory_;
  mutable std::mt19937 random_;
  double lost_, changed_;
};

}  // namespace

TEST_CASE("python: every version is recorded") {
  std::set<std::string> minors;
  for (const std::string& path : FixturePaths()) {
    const std::string version = Load(path).version;
    minors.insert(version.substr(0, version.rfind('.')));
  }
  INFO("tests/fixtures/python/README.md says how to record one");
  CHECK(minors == std::set<std::string>{"3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"});
}

TEST_CASE("python: stacks, types and objects of real processes") {
  for (const std::string& path : FixturePaths()) {
    INFO(path);
    const PythonRecording recording = Load(path);
    const auto interpreter = ReadInterpreter(recording.module, recording.memory);
    INFO(interpreter.status());
    REQUIRE(interpreter.ok());
    CHECK(interpreter->ready);
    CHECK(interpreter->version == recording.version);
    CHECK(interpreter->tsd_offset % 16 == 8);
    CHECK(interpreter->collecting_address != 0);
    // 3.6 has it through a symbol only, which the recordings do not contain.
    CHECK((interpreter->enabled_address != 0) == (interpreter->layout.minor > 6));
    CHECK(interpreter->pool_bytes == (interpreter->layout.minor < 10 ? 4096 : 16384));
    CHECK_FALSE(interpreter->free_threaded);
    CHECK_FALSE(interpreter->trace_refs);
    CHECK(recording.truth.threads.size() == 6);
    CHECK(recording.truth.types.size() >= 45);
    const std::vector<std::string> mistakes = FindMistakes(recording.truth, *interpreter, recording.memory);
    INFO(absl::StrJoin(mistakes, "\n"));
    CHECK(mistakes.empty());
  }
}

TEST_CASE("python: the comparison finds a wrong offset") {
  for (const std::string& path : FixturePaths()) {
    INFO(path);
    const PythonRecording recording = Load(path);
    const auto interpreter = ReadInterpreter(recording.module, recording.memory);
    REQUIRE(interpreter.ok());
    const auto is_found = [&recording, &interpreter](auto change) {
      Interpreter wrong = *interpreter;
      change(&wrong.layout);
      return !FindMistakes(recording.truth, wrong, recording.memory).empty();
    };
    CHECK(is_found([](PythonLayout* l) { l->frame.instruction += 8; }));
    CHECK(is_found([](PythonLayout* l) { l->frame.previous += 8; }));
    CHECK(is_found([](PythonLayout* l) { l->code.first_line += 4; }));
    CHECK(is_found([](PythonLayout* l) { l->code.filename += 8; }));
    CHECK(is_found([](PythonLayout* l) { l->type.qualname += 8; }));
    CHECK(is_found([](PythonLayout* l) { l->type.dict += 8; }));
    CHECK(is_found([](PythonLayout* l) { l->string.compact_data += 8; }));
    CHECK(is_found([](PythonLayout* l) { l->thread.thread_id += 8; }));
    // Beyond what is read at once.
    CHECK(is_found([](PythonLayout* l) { l->frame.owner = 4096; }));
    CHECK(is_found([](PythonLayout* l) { l->code.first_line = 4096; }));
    CHECK(is_found([](PythonLayout* l) { l->type.name = 4096; }));
    CHECK(is_found([](PythonLayout* l) { l->string.state = 4096; }));
    CHECK(is_found([](PythonLayout* l) { l->string.ascii_data = 16 << 20; }));
    if (interpreter->layout.code.adaptive != kNoOffset) {
      CHECK(is_found([](PythonLayout* l) { l->code.adaptive += 64; }));
    }
  }
}

TEST_CASE("python: an interpreter that is starting is not ready, which is not an error") {
  for (const std::string& path : FixturePaths()) {
    INFO(path);
    const PythonRecording recording = Load(path);
    RecordedMemory memory = recording.memory;
    PythonModule module = recording.module;
    const auto interpreter = ReadInterpreter(module, memory);
    REQUIRE(interpreter.ok());
    // Before the first thread state exists.
    memory.Add(interpreter->main_interpreter + interpreter->layout.interpreter.threads_head, std::string(8, '\0'));
    module.interp_head = module.thread_state_current = 0;
    const auto early = ReadInterpreter(module, memory);
    REQUIRE(early.ok());
    CHECK_FALSE(early->ready);
    CHECK(early->tsd_offset == 0);
    // Before the dynamic loader has relocated it.
    memory.Add(interpreter->type_type, std::string(32, '\0'));
    const auto earliest = ReadInterpreter(module, memory);
    REQUIRE(earliest.ok());
    CHECK_FALSE(earliest->ready);
    // Nothing can be read.
    CHECK(absl::IsPermissionDenied(ReadInterpreter(module, RecordedMemory()).status()));
  }
}

TEST_CASE("python: memory with holes and garbage changes answers, nothing worse") {
  for (const std::string& path : FixturePaths()) {
    INFO(path);
    const PythonRecording recording = Load(path);
    const auto interpreter = ReadInterpreter(recording.module, recording.memory);
    REQUIRE(interpreter.ok());
    for (unsigned seed = 0; seed < 30; ++seed) {
      const DamagedMemory holes(recording.memory, seed, 0.05, 0), garbage(recording.memory, seed, 0, 0.1);
      FindMistakes(recording.truth, *interpreter, holes);
      FindMistakes(recording.truth, *interpreter, garbage);
      (void)ReadInterpreter(recording.module, holes);
      (void)ReadInterpreter(recording.module, garbage);
    }
  }
}

TEST_CASE("python: the table of offsets agrees with the row") {
  for (const std::string& path : FixturePaths()) {
    const PythonRecording recording = Load(path);
    std::string table(kDebugOffsetsBytes, '\0');
    DebugOffsetsHead head;
    const auto bytes = absl::MakeSpan(table.data(), table.size());
    if (!recording.memory.Read(recording.module.runtime, bytes) || !ParseDebugOffsetsHead(bytes, &head)) continue;
    INFO(path);
    const uint32_t minor = head.version_hex >> 16 & 0xff;
    const PythonLayout row = LayoutOf(minor, 0, false), published = WithDebugOffsets(row, bytes);
    REQUIRE(published.usable);
    CHECK(std::memcmp(&row.object, &published.object, sizeof(row.object)) == 0);
    CHECK(std::memcmp(&row.type, &published.type, sizeof(row.type)) == 0);
    CHECK(std::memcmp(&row.runtime, &published.runtime, sizeof(row.runtime)) == 0);
    CHECK(std::memcmp(&row.interpreter, &published.interpreter, sizeof(row.interpreter)) == 0);
    CHECK(std::memcmp(&row.thread, &published.thread, sizeof(row.thread)) == 0);
    CHECK(std::memcmp(&row.frame, &published.frame, sizeof(row.frame)) == 0);
    CHECK(std::memcmp(&row.code, &published.code, sizeof(row.code)) == 0);
    CHECK(std::memcmp(&row.string, &published.string, sizeof(row.string)) == 0);
    CHECK(std::memcmp(&row.container, &published.container, sizeof(row.container)) == 0);

    // Reject a table with impossible entries, a truncated one, and one of another version.
    std::string lie = table;
    lie[5 * 8] = static_cast<char>(lie[5 * 8] + 4);  // interpreters_head at no multiple of 8
    CHECK_FALSE(WithDebugOffsets(row, lie).usable);
    for (const size_t word : {5, 9, 21, 35, 66}) {
      lie = table;
      lie[word * 8 + 5] = 1;  // an offset above 2^40
      if (minor == 13) CHECK_FALSE(WithDebugOffsets(row, lie).usable);
    }
    // Offsets beyond what is read at once, in structures that claim to be large: of frames, code, types and strings.
    const auto set = [](std::string* table, size_t word, uint64_t value) { memcpy(&(*table)[word * 8], &value, 8); };
    const bool has_14 = minor == 14;
    std::string large = table;
    for (const size_t word :
         has_14 ? std::vector<size_t>{31, 39, 50, 52, 56, 77} : std::vector<size_t>{28, 34, 44, 46, 50, 67}) {
      set(&large, word, 1 << 20);
    }
    CHECK(WithDebugOffsets(row, large).usable);
    for (const size_t word :
         has_14 ? std::vector<size_t>{32, 33, 34, 36, 40, 41, 42, 43, 44, 51, 53, 55, 58, 78, 79, 80}
                : std::vector<size_t>{29, 30, 31, 33, 35, 36, 37, 38, 39, 45, 47, 49, 52, 68, 69, 70}) {
      INFO(word);
      lie = large;
      set(&lie, word, 4096);
      CHECK_FALSE(WithDebugOffsets(row, lie).usable);
    }
    for (size_t size = 0; size < 73 * 8; ++size) CHECK_FALSE(WithDebugOffsets(row, bytes.subspan(0, size)).usable);
    CHECK_FALSE(WithDebugOffsets(LayoutOf(minor == 13 ? 14 : 13, 0, false), bytes).usable);
    std::string newer = table;
    newer[8 + 2] = kNewestMinor + 1;
    const PythonLayout layout = WithDebugOffsets(row, newer);
    CHECK_FALSE(layout.usable);
    CHECK(absl::StrContains(layout.reason, "does not know yet"));
  }
}

}  // namespace cowprof
