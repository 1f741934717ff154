// Walks frames and resolves code objects of a process that keeps running. A frame that vanished, a code object whose
// memory was reused, a garbage line table: each yields "unknown", never a loop or a crash.
#include "python/frames.h"

#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "python/objects.h"

namespace cowprof {
namespace {

constexpr size_t kMaxFrames = 128;
constexpr size_t kMaxSteps = 4 * kMaxFrames;  // including skipped entries
constexpr size_t kMaxThreads = 4096;
constexpr size_t kMaxFileBytes = 1000;
constexpr size_t kMaxLineTableBytes = 1 << 20;  // the longest in the 3.11 standard library has 26,000
constexpr size_t kMaxCacheBytes = 32 << 20;
constexpr size_t kMaxThreadLocalCodes = 4096;

template <typename T>
T At(const char* bytes, size_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

std::optional<std::string> ReadBytes(const PythonLayout& layout, const MemoryReader& memory, uint64_t address) {
  const auto size = IsUserPointer(address) ? ReadValue<uint64_t>(memory, address + layout.object.var_size)
                                           : std::optional<uint64_t>();
  if (!size || *size > kMaxLineTableBytes) return std::nullopt;
  std::string bytes(*size, '\0');
  if (!memory.Read(address + layout.container.bytes_data, absl::MakeSpan(bytes.data(), bytes.size()))) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

bool IsTrampoline(const CodeLocation& code) {
  return code.function == "<interpreter trampoline>" || (code.function == "__init__" && code.file == "__init__");
}

std::optional<CodeReader::Head> CodeReader::ReadHead(uint64_t code) const {
  const PythonLayout& layout = interpreter_.layout;
  const CodeOffsets& offsets = layout.code;
  char bytes[kMaxHeadBytes];
  const size_t size = HeadBytesOf(layout).code;
  if (!IsUserPointer(code) || size > sizeof(bytes) || !memory_.Read(code, absl::MakeSpan(bytes, size))) {
    return std::nullopt;
  }
  if (interpreter_.code_type == 0 || At<uint64_t>(bytes, layout.object.type) != interpreter_.code_type) {
    return std::nullopt;
  }
  Head head;
  head.filename = At<uint64_t>(bytes, offsets.filename);
  head.name = At<uint64_t>(bytes, offsets.name);
  if (offsets.qualname != kNoOffset) head.qualname = At<uint64_t>(bytes, offsets.qualname);
  head.line_table = At<uint64_t>(bytes, offsets.line_table);
  head.first_line = At<int32_t>(bytes, offsets.first_line);
  // Up to 3.10 co_code is a bytes object; since 3.11 the units are part of the object and ob_size counts them.
  if (offsets.adaptive != kNoOffset) head.units = At<uint64_t>(bytes, layout.object.var_size);
  return head;
}

std::optional<CodeReader::Cached> CodeReader::ReadCode(const Head& head) const {
  const PythonLayout& layout = interpreter_.layout;
  auto file = ReadString(layout, memory_, head.filename, kMaxFileBytes);
  auto function = ReadString(layout, memory_, head.qualname != 0 ? head.qualname : head.name, kMaxNameBytes);
  auto line_table = ReadBytes(layout, memory_, head.line_table);
  if (!file || !function || !line_table) return std::nullopt;
  return Cached{head, *std::move(file), *std::move(function), *std::move(line_table)};
}

// Bytes from the first instruction; -2 or -1 before it. nullopt: the instruction does not belong to this code.
std::optional<int64_t> CodeReader::ByteOffset(uint64_t code, uint64_t instruction, uint64_t units) const {
  const PythonLayout& layout = interpreter_.layout;
  if (layout.frame.instruction_kind != InstructionKind::kPointer) {
    const auto index = static_cast<int32_t>(instruction);
    const int64_t unit_bytes = layout.frame.instruction_kind == InstructionKind::kUnitIndex ? 2 : 1;
    return index < 0 ? -1 : index * unit_bytes;
  }
  const auto offset_from = [instruction, units](uint64_t first) -> std::optional<int64_t> {
    // prev_instr of a frame that has not started points one unit before the first.
    const uint64_t shifted = instruction - first + 2;
    if (units > uint64_t{1} << 32 || shifted > units * 2 + 2) return std::nullopt;
    return static_cast<int64_t>(shifted) - 2;
  };
  if (const auto offset = offset_from(code + layout.code.adaptive)) return offset;
  if (layout.code.thread_local_code == kNoOffset) return std::nullopt;
  // 3.14t: every thread except the first runs a copy; _PyCodeArray is {Py_ssize_t size; char* entries[]}.
  const auto array = ReadValue<uint64_t>(memory_, code + layout.code.thread_local_code);
  const auto size = array ? ReadValue<uint64_t>(memory_, *array) : std::nullopt;
  if (!size || *size > kMaxThreadLocalCodes) return std::nullopt;
  for (uint64_t i = 0; i < *size; ++i) {
    const auto entry = ReadValue<uint64_t>(memory_, *array + 8 + 8 * i);
    if (!entry) return std::nullopt;
    if (const auto offset = *entry == 0 ? std::nullopt : offset_from(*entry)) return offset;
  }
  return std::nullopt;
}

std::optional<CodeLocation> CodeReader::Resolve(uint64_t code, uint64_t instruction) {
  code &= ~uint64_t{interpreter_.layout.frame.code_tag_mask};
  const std::optional<Head> head = ReadHead(code);
  if (!head) return std::nullopt;
  auto known = cache_.find(code);
  if (known == cache_.end() || known->second->head != *head) {
    std::optional<Cached> read = ReadCode(*head);
    if (!read) return std::nullopt;
    if (known != cache_.end()) cached_bytes_ -= known->second->Bytes();
    if (cached_bytes_ > kMaxCacheBytes) {
      cache_.clear();
      cached_bytes_ = 0;
    }
    cached_bytes_ += read->Bytes();
    known = cache_.insert_or_assign(code, std::make_unique<Cached>(*std::move(read))).first;
  }
  const Cached& cached = *known->second;
  CodeLocation location{cached.file, cached.function, 0};
  if (const auto offset = ByteOffset(code, instruction, head->units)) {
    location.line = LineOf(interpreter_.layout.code.line_table_kind, cached.line_table, head->first_line, *offset);
  }
  return location;
}

std::vector<RawFrame> WalkFrames(const Interpreter& interpreter, const MemoryReader& memory, uint64_t thread_state) {
  const PythonLayout& layout = interpreter.layout;
  const FrameOffsets& offsets = layout.frame;
  const size_t size = HeadBytesOf(layout).frame;
  std::vector<RawFrame> frames;
  auto next = ReadValue<uint64_t>(memory, thread_state + layout.thread.frame);
  if (next && layout.thread.frame_hop != kNoOffset) next = ReadValue<uint64_t>(memory, *next + layout.thread.frame_hop);
  absl::flat_hash_set<uint64_t> seen;
  for (size_t step = 0; step < kMaxSteps && frames.size() < kMaxFrames; ++step) {
    if (!next || !IsUserPointer(*next) || !seen.insert(*next).second) break;
    RawFrame frame{.frame = *next};
    char bytes[kMaxHeadBytes];
    if (size > sizeof(bytes) || !memory.Read(frame.frame, absl::MakeSpan(bytes, size))) break;
    frame.code = At<uint64_t>(bytes, offsets.code) & ~uint64_t{offsets.code_tag_mask};
    next = At<uint64_t>(bytes, offsets.previous);
    frame.instruction = offsets.instruction_kind == InstructionKind::kPointer
                            ? At<uint64_t>(bytes, offsets.instruction)
                            : static_cast<uint64_t>(int64_t{At<int32_t>(bytes, offsets.instruction)});
    if (offsets.owner != kNoOffset) frame.owner = At<uint8_t>(bytes, offsets.owner);
    if (frame.owner >= offsets.first_native_owner) continue;
    const auto type = IsUserPointer(frame.code) ? ReadValue<uint64_t>(memory, frame.code + layout.object.type)
                                                : std::optional<uint64_t>();
    if (!type || *type != interpreter.code_type) break;
    frames.push_back(frame);
  }
  return frames;
}

std::vector<ThreadState> ListThreads(const Interpreter& interpreter, const MemoryReader& memory, bool* complete) {
  const ThreadOffsets& offsets = interpreter.layout.thread;
  std::vector<ThreadState> threads;
  if (complete != nullptr) *complete = false;
  if (interpreter.main_interpreter == 0) return threads;
  auto next = ReadValue<uint64_t>(memory, interpreter.main_interpreter + interpreter.layout.interpreter.threads_head);
  absl::flat_hash_set<uint64_t> seen;
  while (next && IsUserPointer(*next) && threads.size() < kMaxThreads && seen.insert(*next).second) {
    ThreadState thread{.address = *next};
    const auto owner = ReadValue<uint64_t>(memory, thread.address + offsets.interpreter);
    const auto id = ReadValue<uint64_t>(memory, thread.address + offsets.thread_id);
    if (!owner || !id || *owner != interpreter.main_interpreter) break;
    thread.thread_id = *id;
    threads.push_back(thread);
    next = ReadValue<uint64_t>(memory, thread.address + offsets.next);
  }
  if (complete != nullptr) *complete = next == uint64_t{0};
  return threads;
}

}  // namespace cowprof
