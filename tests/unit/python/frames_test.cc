// frames.cc on broken stacks and code objects: cycles, garbage, code objects whose memory was reused.
#include "python/frames.h"

#include <catch2/catch.hpp>

#include "python/locks.h"
#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kThread = 0x30000, kCframe = 0x31000, kFrames = 0x100000, kCode = 0x200000;

// A thread of 3.11 whose frames are 256 bytes apart, each the caller of the previous one.
class Stack : public PythonMemory {
 public:
  explicit Stack(size_t frames) {
    Add(kThread, std::string(256, '\0'));
    Word(kThread + layout().thread.frame, kCframe);
    Word(kCframe + layout().thread.frame_hop, kFrames);
    for (size_t i = 0; i < frames; ++i) AddFrame(kFrames + i * 256, i + 1 < frames ? kFrames + (i + 1) * 256 : 0);
    AddCode(kCode, "f", "a.py", 7);
  }
  void AddFrame(uint64_t address, uint64_t previous) {
    Add(address, std::string(256, '\0'));
    Word(address + layout().frame.code, kCode);
    Word(address + layout().frame.previous, previous);
    Word(address + layout().frame.instruction, kCode + layout().code.adaptive + 2);
  }
  // 10 units: 5 on the first line, 5 on the next.
  void AddCode(uint64_t address, const std::string& name, const std::string& file, uint32_t first_line) {
    Add(address, std::string(512, '\0'));
    Word(address + 8, kCodeType);
    Word(address + layout().object.var_size, 10);
    AddStr(address + 0x1000, name);
    AddStr(address + 0x2000, file);
    Word(address + layout().code.qualname, address + 0x1000);
    Word(address + layout().code.name, address + 0x1000);
    Word(address + layout().code.filename, address + 0x2000);
    Word(address + layout().code.line_table, address + 0x3000);
    Word(address + layout().code.first_line, first_line);
    Add(address + 0x3000, std::string(64, '\0'));
    Word(address + 0x3000 + layout().object.var_size, 5);
    Add(address + 0x3000 + layout().container.bytes_data, std::string("\x84\x00\xdc\x00\x00", 5));
  }
};

}  // namespace

TEST_CASE("python frames: a whole stack") {
  const Stack stack(5);
  const auto frames = WalkFrames(stack.interpreter(), stack, kThread);
  REQUIRE(frames.size() == 5);
  CHECK(frames[1].frame == kFrames + 256);
  CHECK(frames[1].code == kCode);
  CodeReader reader(stack.interpreter(), stack);
  CHECK(reader.Resolve(frames[1].code, frames[1].instruction) == CodeLocation{"a.py", "f", 7});
}

TEST_CASE("python frames: instructions of a code object and others") {
  const Stack stack(1);
  CodeReader reader(stack.interpreter(), stack);
  const uint64_t first = kCode + stack.layout().code.adaptive;
  const auto line = [&](uint64_t instruction) { return reader.Resolve(kCode, instruction)->line; };
  CHECK(line(first - 2) == 7);  // not started
  CHECK(line(first) == 7);
  CHECK(line(first + 9) == 7);
  CHECK(line(first + 10) == 8);
  CHECK(line(first + 18) == 8);
  CHECK(line(first + 22) == 0);  // after the end
  CHECK(line(first - 4) == 0);
  CHECK(line(0) == 0);
  CHECK(line(UINT64_MAX) == 0);
}

TEST_CASE("python frames: _Py_InitCleanup, below the __init__ of a class, is not a line of the program") {
  Stack stack(3);
  for (const auto& [frame, code] : {std::pair{0, "__init__"}, {1, "__init__"}, {2, "train"}}) {
    const uint64_t at = kCode + 0x10000 * (frame + 1);
    stack.AddCode(at, code, frame == 1 ? "__init__" : "train.py", 36);
    stack.Word(kFrames + frame * 256 + stack.layout().frame.code, at);
    stack.Word(kFrames + frame * 256 + stack.layout().frame.instruction, at + stack.layout().code.adaptive);
  }
  CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 3);
  const std::vector<Frame> shown = LockReader(stack.interpreter(), stack).StackOf({.address = kThread});
  REQUIRE(shown.size() == 2);
  CHECK((shown[0].file == "train.py" && shown[0].function == "__init__"));
  CHECK((shown[1].function == "train" && shown[1].line == 36));
  CHECK_FALSE(IsTrampoline({"train.py", "__init__", 0}));
  CHECK_FALSE(IsTrampoline({"__init__", "main", 0}));
  CHECK(IsTrampoline({"<string>", "<interpreter trampoline>", 0}));
}

TEST_CASE("python frames: more than the limit, cycles, garbage, holes") {
  SECTION("deep") {
    const Stack stack(1000);
    CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 128);
  }
  SECTION("a frame that is its own caller") {
    Stack stack(3);
    stack.Word(kFrames + 256 + stack.layout().frame.previous, kFrames + 256);
    CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 2);
  }
  SECTION("a longer cycle") {
    Stack stack(10);
    stack.Word(kFrames + 9 * 256 + stack.layout().frame.previous, kFrames);
    CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 10);
  }
  SECTION("a caller in unmapped memory, in the kernel, at an odd address") {
    for (const uint64_t previous : {0x7000'0000'0000, 0x7000'0000'0001}) {
      Stack stack(3);
      stack.Word(kFrames + stack.layout().frame.previous, previous);
      CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 1);
    }
    Stack stack(3);
    stack.Word(kFrames + stack.layout().frame.previous, 0xffff'8000'0000'0000);
    CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 1);
  }
  SECTION("a frame without code") {
    Stack stack(3);
    stack.Word(kFrames + 256 + stack.layout().frame.code, PythonMemory::kStrType);
    CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 1);
  }
  SECTION("a thread in unmapped memory, a thread without a frame") {
    Stack stack(3);
    CHECK(WalkFrames(stack.interpreter(), stack, 0x7000'0000'0000).empty());
    stack.Word(kThread + stack.layout().thread.frame, 0);
    CHECK(WalkFrames(stack.interpreter(), stack, kThread).empty());
  }
}

TEST_CASE("python frames: entries of the interpreter itself are skipped") {
  Stack stack(4);
  stack.interpreter_.layout.frame.first_native_owner = 3;
  stack.Add(kFrames + 256 + stack.layout().frame.owner, "\x03");
  stack.Word(kFrames + 256 + stack.layout().frame.code, 0);
  CHECK(WalkFrames(stack.interpreter(), stack, kThread).size() == 3);
}

TEST_CASE("python frames: a code object that was freed and whose address was reused") {
  Stack stack(1);
  CodeReader reader(stack.interpreter(), stack);
  const uint64_t instruction = kCode + stack.layout().code.adaptive;
  CHECK(reader.Resolve(kCode, instruction) == CodeLocation{"a.py", "f", 7});
  stack.AddCode(kCode + 0x10000, "g", "b.py", 20);
  for (const uint32_t offset :
       {stack.layout().code.qualname, stack.layout().code.filename, stack.layout().code.line_table}) {
    stack.Word(kCode + offset, *ReadValue<uint64_t>(stack, kCode + 0x10000 + offset));
  }
  CHECK(reader.Resolve(kCode, instruction) == CodeLocation{"b.py", "g", 7});
  stack.Word(kCode + 8, PythonMemory::kStrType);
  CHECK_FALSE(reader.Resolve(kCode, instruction));
  stack.Word(kCode + 8, PythonMemory::kCodeType);
  stack.Word(kCode + stack.layout().code.line_table, 0x7000'0000'0000);
  CHECK_FALSE(reader.Resolve(kCode, instruction));
}

TEST_CASE("python frames: a line table of any claimed size") {
  Stack stack(1);
  CodeReader reader(stack.interpreter(), stack);
  const uint64_t size = GENERATE(uint64_t{1} << 20, UINT64_MAX, uint64_t{1} << 62);
  stack.Word(kCode + 0x3000 + stack.layout().object.var_size, size);
  CHECK_FALSE(reader.Resolve(kCode, kCode + stack.layout().code.adaptive));
}

TEST_CASE("python frames: the cache of code objects is bounded") {
  Stack stack(1);
  CodeReader reader(stack.interpreter(), stack);
  stack.Add(0x10000000, std::string(1 << 20, '\0'));
  stack.Word(0x10000000 + stack.layout().object.var_size, 1 << 19);
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t code = kCode + 0x10000 * (i + 1);
    stack.AddCode(code, "f", "a.py", 1);
    stack.Word(code + stack.layout().code.line_table, 0x10000000);
    CHECK(reader.Resolve(code, code + stack.layout().code.adaptive));
    CHECK(reader.cached_bytes() < 34 << 20);
  }
}

TEST_CASE("python frames: a circular list of threads") {
  Stack stack(1);
  stack.interpreter_.main_interpreter = 0x50000;
  stack.Word(0x50000 + stack.layout().interpreter.threads_head, kThread);
  stack.Word(kThread + stack.layout().thread.interpreter, 0x50000);
  stack.Word(kThread + stack.layout().thread.thread_id, 0x1234000);
  stack.Word(kThread + stack.layout().thread.next, kThread);
  bool complete = true;
  const auto threads = ListThreads(stack.interpreter(), stack, &complete);
  REQUIRE(threads.size() == 1);
  CHECK(threads[0].thread_id == 0x1234000);
  CHECK_FALSE(complete);
  // A state that is freed while the list is read hides the older ones; the last one is the end.
  stack.Word(kThread + stack.layout().thread.next, kThread + 0x1000);
  CHECK(ListThreads(stack.interpreter(), stack, &complete).size() == 1);
  CHECK_FALSE(complete);
  stack.Word(kThread + stack.layout().thread.next, 0);
  CHECK(ListThreads(stack.interpreter(), stack, &complete).size() == 1);
  CHECK(complete);
}

}  // namespace cowprof
