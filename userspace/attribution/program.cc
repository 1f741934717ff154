// Finds the interpreter, and reads types, code objects and symbols through whatever process still has them.
#include "attribution/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "attribution/malloc_lists.h"
#include "model/format.h"
#include "posix/clock.h"
#include "python/cached_memory.h"
#include "python/environ.h"
#include "source/environment.h"

namespace cowprof {
namespace {

constexpr size_t kLongestInstruction = 15;  // bytes, Intel SDM volume 2, 2.3.11
constexpr size_t kBytesBefore = 8;
constexpr size_t kMaxNativeNameBytes = 512;  // of a mangled C++ class

// Between two looks at a program that is not Python, or not yet: an interpreter takes 10 to 30 ms to start, and a
// program that embeds one may load it at any time.
constexpr absl::Duration kFirstGapAfterExec = absl::Milliseconds(20), kFirstGap = absl::Seconds(1);
constexpr absl::Duration kLongestGap = absl::Seconds(60);
// For glibc's malloc, which has lists from the first allocation on: for 4 minutes after an exec, otherwise for 10.
constexpr int kMostMallocLooks = 16;
// Between two looks at what is mapped, for code that is generated at run time: with 100,000 mappings one takes a tenth
// of a second.
constexpr absl::Duration kLookAtMappingsAgain = absl::Seconds(10);
constexpr int kMostEnvironLooks = 8;  // the process that is looked at may just have ended

constexpr char kNoHeads[] = "the size of the collector's headers, 24 or 32 bytes, can't be read off sys.modules";

// PYTHONMALLOC=malloc, as set by programs that bring their own allocator: then no object lies in a pool. Only a hint:
// allocators are also chosen when Python is built or embedded, and a program may overwrite its environment.
bool UsesOtherAllocator(const ProcFs& proc, pid_t pid) {
  const std::string environment = proc.ReadHead(pid, "environ", kMaxEnvironmentBytes);
  const std::vector<absl::string_view> variables = absl::StrSplit(environment, '\0');
  return std::any_of(variables.begin(), variables.end(), [](absl::string_view variable) {
    return variable == "PYTHONMALLOC=malloc" || variable == "PYTHONMALLOC=malloc_debug";
  });
}

// An open file stays with its process. If the pid was reused, nothing is read.
std::unique_ptr<ProcessMemory> OpenMemory(const ProcFs& proc, const ProcessId& id, ProgramFiles* files) {
  auto memory = std::make_unique<ProcessMemory>(id.pid, proc, files);
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(id.pid);
  const bool same = stat.ok() && (id.start_ns == 0 || stat->start_ticks == id.start_ticks());
  return same ? std::move(memory) : std::make_unique<ProcessMemory>(0, proc, files);
}

}  // namespace

const ProcessMemory& LineageMemory::Open(const MemberMemory& member) const {
  if (member.memory == nullptr) member.memory = OpenMemory(proc_, member.id, &files_);
  return *member.memory;
}

bool LineageMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  for (size_t i = 0; i < std::min(members_.size(), kMostOpen); ++i) {
    if (Open(members_[i]).Read(address, bytes)) return true;
  }
  return false;
}

bool LineageMemory::ReadIfPresent(uint64_t address, absl::Span<char> bytes) const {
  return !members_.empty() && Open(members_.front()).ReadIfPresent(address, bytes);
}

std::vector<pid_t> LineageMemory::pids() const {
  std::vector<pid_t> pids;
  for (size_t i = 0; i < std::min(members_.size(), kMostOpen); ++i) pids.push_back(members_[i].id.pid);
  return pids;
}

void LineageMemory::Add(const ProcessId& id) { members_.push_back({.id = id}); }

void LineageMemory::Remove(const ProcessId& id) {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [&](const MemberMemory& member) { return member.id == id; });
  if (found != members_.end()) members_.erase(found);
}

void LineageMemory::Prefer(const ProcessId& id) {
  const auto found =
      std::find_if(members_.begin(), members_.end(), [&](const MemberMemory& member) { return member.id == id; });
  if (found == members_.end() || found == members_.begin()) return;
  std::iter_swap(found, members_.begin());
  found->memory.reset();
}

Program::Program(uint32_t image, const ProcFs& proc, ElfCache* elf_cache, bool starting)
    : image_(image),
      proc_(proc),
      elf_cache_(elf_cache),
      gap_(starting ? kFirstGapAfterExec : kFirstGap),
      malloc_gap_(gap_) {}

bool Program::Inspect(absl::Duration now) {
  if (now < next_look_ || memory_.first() == 0) return false;
  next_look_ = now + gap_;
  gap_ = std::min(2 * gap_, kLongestGap);
  memory_.LookAgain();
  absl::StatusOr<Interpreter> found = FindInterpreter(proc_, memory_.first(), memory_, &without_python_);
  if (!found.ok()) {
    // One that has ended, or is about to, has no memory any more and may have been Python.
    const absl::StatusOr<ProcStat> stat = proc_.ReadStat(memory_.first());
    if (!stat.ok() || stat->is_exiting()) return false;
  }
  reason_.clear();
  if (absl::IsNotFound(found.status())) {
    python_ = Python::kNone;
    return false;
  }
  if (absl::IsUnavailable(found.status())) {
    python_ = Python::kNotKnownYet;
    reason_ = std::string(found.status().message());
    return false;
  }
  // An old interpreter stores its version a little after it starts to run; one that never does is taken as it is. What
  // ld.so has not relocated yet is not an interpreter yet. sys.modules, which tells the allocator, is made last.
  const bool starting = gap_ < kFirstGap;
  const std::optional<bool> pools = found.ok() ? UsesPools(*found, memory_) : std::nullopt;
  const bool pools_known = pools || (found.ok() && !found->layout.usable);
  if ((found.ok() && !found->ready) || (starting && (!found.ok() || !found->patch_known || !pools_known))) {
    python_ = Python::kNotKnownYet;
    return false;
  }
  // The collector may just have moved sys.modules from one list to another: look again.
  const bool no_heads = found.ok() && !found->free_threaded && found->layout.gc_head_bytes == 0;
  if (no_heads && gap_ < kLongestGap) {
    python_ = Python::kNotKnownYet;
    reason_ = kNoHeads;
    return false;
  }
  next_look_ = absl::InfiniteDuration();
  python_ = Python::kUnusable;
  if (!found.ok()) {
    reason_ = std::string(found.status().message());
    return true;
  }
  interpreter_ = *std::move(found);
  if (!pools.value_or(!UsesOtherAllocator(proc_, memory_.first()))) interpreter_.pool_bytes = 0;
  if (!interpreter_.layout.usable) {
    reason_ = interpreter_.layout.reason;
  } else if (interpreter_.free_threaded) {
    reason_ = "a free-threaded build: cowprof cannot classify its writes";
  } else if (interpreter_.trace_refs) {
    reason_ = "a build with Py_TRACE_REFS: cowprof cannot classify its writes";
  } else if (no_heads) {
    reason_ = kNoHeads;
  } else {
    python_ = Python::kReadable;
    types_ = std::make_unique<TypeReader>(interpreter_, memory_);
    codes_ = std::make_unique<CodeReader>(interpreter_, memory_);
  }
  return true;
}

absl::Duration Program::next_urgent_look() const { return gap_ < kFirstGap ? next_look_ : absl::InfiniteDuration(); }

void Program::LookForMalloc(absl::Duration now) {
  if (malloc_ || malloc_looks_ == kMostMallocLooks || now < next_malloc_look_ || memory_.first() == 0) return;
  ++malloc_looks_;
  next_malloc_look_ = now + malloc_gap_;
  malloc_gap_ = std::min(2 * malloc_gap_, kLongestGap);
  const absl::StatusOr<std::vector<Mapping>> mappings = proc_.ReadMaps(memory_.first());
  const PresentMemory memory(memory_.first(), proc_);
  if (mappings.ok()) malloc_ = FindMallocLists(*mappings, CachedMemory(memory));
}

cowprof_image Program::ProbeImage() const {
  const PythonLayout& layout = interpreter_.layout;
  const bool hop = layout.thread.frame_hop != kNoOffset;
  return {.type_type = interpreter_.type_type,
          .collecting = interpreter_.collecting_address,
          .thread_state_at = interpreter_.tsd_offset,
          .pool_bytes = static_cast<uint32_t>(interpreter_.pool_bytes),
          .gc_header_bytes = layout.gc_head_bytes,
          .thread_frame = layout.thread.frame,
          .frame_indirection = hop ? static_cast<int>(layout.thread.frame_hop) : -1,
          .frame_code = layout.frame.code,
          .frame_previous = layout.frame.previous,
          .frame_instruction = layout.frame.instruction,
          .instruction_bytes = layout.frame.instruction_kind == InstructionKind::kPointer ? 8u : 4u,
          .code_bytes_at = layout.code.adaptive == kNoOffset ? 0 : layout.code.adaptive,
          .reserved = 0};
}

std::optional<bool> Program::CollectorOn(pid_t pid) const {
  if (interpreter_.enabled_address == 0) return std::nullopt;
  return cowprof::CollectorOn(interpreter_, memory_.Of(pid));
}

std::optional<uint64_t> Program::FullCollections(pid_t pid) const {
  const uint64_t address = FullCollectionsAddress(interpreter_);
  if (address == 0) return std::nullopt;
  const auto collections = ReadValue<uint64_t>(memory_.Of(pid), address);
  return collections && *collections <= UINT32_MAX ? collections : std::nullopt;
}

bool Program::IsCollecting(pid_t pid) const {
  const uint64_t address = interpreter_.collecting_address;
  return address != 0 && ReadValue<uint32_t>(memory_.Of(pid), address) == 1;
}

bool Program::HasFrozen(pid_t pid) const {
  // CPython 3.12 moves its own immortal objects there, some 400. A freeze takes thousands, of the imported modules
  // alone.
  constexpr int kLeast = 2048;
  const uint64_t head = PermanentGenerationAddress(interpreter_);
  if (head == 0) return false;
  const ProcessMemory memory = memory_.Of(pid);
  uint64_t at = head;
  for (int i = 0; i <= kLeast; ++i) {
    const auto next = ReadValue<uint64_t>(memory, at);
    if (!next || *next == head || *next % sizeof(uint64_t) != 0) return false;
    at = *next;
  }
  return true;
}

uint64_t Program::EnvironAddress(pid_t pid) {
  if (environ_address_ == 0 && environ_looks_ < kMostEnvironLooks) {
    ++environ_looks_;
    environ_address_ = FindEnviron(proc_, pid, elf_cache_);
  }
  return environ_address_;
}

std::optional<HeadLayout> Program::Heads() const {
  if (python_ == Python::kNone) return HeadLayout{};
  if (python_ != Python::kReadable) return std::nullopt;
  return HeadLayoutOf(interpreter_);
}

TypeLookup Program::Types() { return types_ == nullptr ? TypeLookup() : LookUpIn(*types_, interpreter_.layout.minor); }

std::string Program::TypeName(uint64_t type) {
  if (type == 0 || types_ == nullptr) return "";
  return types_->NameOf(type).value_or("");
}

// Before the table is the address of the type_info, whose second word is the address of its mangled name (Itanium C++
// ABI, 2.5.2 and 2.9.4); "*" before it: the name is local to its file.
std::string Program::NativeTypeName(uint64_t virtual_table) {
  const auto type_info = ReadValue<uint64_t>(memory_, virtual_table - 8);
  const auto name_at = type_info ? ReadValue<uint64_t>(memory_, *type_info + 8) : std::nullopt;
  const auto mangled = name_at ? ReadCString(memory_, *name_at, kMaxNativeNameBytes) : std::nullopt;
  if (!mangled || mangled->empty()) return "";
  const std::string name = Demangle(absl::StrCat("_ZTS", absl::StripPrefix(*mangled, "*")));
  absl::string_view type = name;
  return absl::ConsumePrefix(&type, "typeinfo name for ") ? std::string(type) : "";
}

std::optional<Frame> Program::FrameOf(const cowprof_frame& frame) {
  if (codes_ == nullptr) return Frame{};
  if (frame.code == interpreter_.none) return std::nullopt;  // from 3.13 on
  // f_lasti is a signed 32-bit number.
  const bool pointer = interpreter_.layout.frame.instruction_kind == InstructionKind::kPointer;
  const uint64_t instruction =
      pointer ? frame.instruction : static_cast<int64_t>(static_cast<int32_t>(frame.instruction));
  const std::optional<CodeLocation> location = codes_->Resolve(frame.code, instruction);
  if (!location) return Frame{};
  if (IsTrampoline(*location)) return std::nullopt;
  return Frame{location->file, location->function, location->line};
}

// Of the first member that still has memory.
bool Program::ReadMappings() {
  for (const pid_t pid : memory_.pids()) {
    absl::StatusOr<std::vector<Mapping>> mappings = proc_.ReadMaps(pid);
    if (!mappings.ok()) continue;
    symbols_ = std::make_unique<NativeSymbols>(*std::move(mappings), proc_.PathOf(pid, ""), elf_cache_);
    mapped_by_ = pid;
    mapped_at_ = BootTime();
    return true;
  }
  return false;
}

// Whether the first member has other code there than the one whose mappings are known: a library that it loaded after
// the fork may lie where another process has another.
bool Program::HasOtherCode(uint64_t ip) const {
  std::array<char, kLongestInstruction> own, known;
  return memory_.first() != mapped_by_ && memory_.Of(memory_.first()).Read(ip, absl::MakeSpan(own)) &&
         memory_.Of(mapped_by_).Read(ip, absl::MakeSpan(known)) && own != known;
}

// Reads the mappings once more if there was no code: a library may have been loaded since. Where there was generated
// code, one seldom takes its place.
std::optional<NativeSymbol> Program::SymbolOf(uint64_t ip) {
  if ((symbols_ == nullptr || HasOtherCode(ip)) && !ReadMappings()) return std::nullopt;
  if (std::optional<NativeSymbol> symbol = symbols_->Find(ip)) return symbol;
  if (symbols_->IsGenerated(ip) && BootTime() - mapped_at_ < kLookAtMappingsAgain) return NativeSymbol{};
  if (!ReadMappings()) return std::nullopt;
  return symbols_->Find(ip).value_or(NativeSymbol{});
}

std::optional<WriteKind> Program::KindOf(uint64_t ip) {
  if (const auto known = kinds_.find(ip); known != kinds_.end()) return known->second;
  std::array<uint8_t, kBytesBefore + kLongestInstruction> code = {};
  if (!memory_.Read(ip - kBytesBefore, absl::MakeSpan(reinterpret_cast<char*>(code.data()), code.size())))
    return std::nullopt;
  const absl::Span<const uint8_t> bytes = code;
  return kinds_[ip] = WriteKindOf(bytes.subspan(kBytesBefore), bytes.subspan(0, kBytesBefore));
}

std::string PickleObstacle(const Program& program) {
  switch (program.python()) {
    case Program::Python::kNone:
      return "it does not run Python";
    case Program::Python::kNotKnownYet:
      if (!program.reason().empty()) return Printable(program.reason(), 300);
      return "its interpreter is still starting; try again";
    case Program::Python::kUnusable:
    case Program::Python::kReadable:
      break;
  }
  const Interpreter& python = program.interpreter();
  if (python.free_threaded)
    return absl::StrCat("Python ", python.version, " is a free-threaded build, whose objects have another layout");
  if (python.trace_refs) return "its Python is built with Py_TRACE_REFS, which moves the fields of objects";
  if (program.python() == Program::Python::kUnusable) return Printable(program.reason(), 300);
  if (python.layout.minor < 8) return absl::StrCat("Python ", python.version, ": pickle's rules are known from 3.8 on");
  return "";
}

}  // namespace cowprof
