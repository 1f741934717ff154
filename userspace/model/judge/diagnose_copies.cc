// Diagnoses of copied memory, by cause.
#include <algorithm>
#include <cstring>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/facts/ended_aggregate.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/native_code.h"
#include "model/judge/other_allocator.h"
#include "model/judge/packing.h"
#include "model/judge/unexplained.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr double kMostIdentical = 0.8;    // of the compared pages: nobody really wrote to them
constexpr uint64_t kEnoughCompared = 20;  // pages
constexpr uint64_t kLargeArray = 1000;    // items
constexpr double kLeastOfType = 0.25;     // of the copies at a line

// One place in the program, and what was touched there.
struct Place {
  ProgramLine line;
  std::map<std::string, uint64_t> types;  // copies
  uint64_t copies = 0;
};

// Where copies by these causes were made, most first. `known`: those that have a site, with or without a line. Shares
// are parts of that, since it was scaled to what was counted over all causes, not for each.
struct Places {
  std::vector<Place> with_line;
  uint64_t known = 0;
};
Places PlacesOf(const Facts& facts, std::initializer_list<Cause> causes) {
  std::map<ProgramLine, Place> places;
  Places out;
  for (const CopySiteShare& share : facts.tables().blame.copy_sites) {
    const CopySite& copy_site = facts.model.copy_sites[share.copy_site];
    if (!absl::c_linear_search(causes, copy_site.cause)) continue;
    const ProgramLine line = LineOf(facts.model, copy_site.frames);
    Place& place = places[line];
    place.line = line;
    place.copies += share.copies;
    out.known += share.copies;
    if (!copy_site.type.empty()) place.types[copy_site.type] += share.copies;
  }
  for (auto& [line, place] : places) {
    if (!line.frame.file.empty() && place.copies > 0) out.with_line.push_back(std::move(place));
  }
  absl::c_stable_sort(out.with_line, [](const Place& a, const Place& b) { return a.copies > b.copies; });
  return out;
}

// "": none that most of these copies could be of. What a library allocates for itself is of none.
std::string TopTypeOf(const Place& place) {
  const auto most = absl::c_max_element(place.types, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == place.types.end() || most->second < kLeastOfType * place.copies ? "" : most->first;
}

// Returns the types and lines with the most copies of these causes, as evidence.
std::vector<std::string> TopOf(const Facts& facts, std::initializer_list<Cause> causes, const Places& places) {
  std::vector<std::pair<uint64_t, std::string>> types, lines;
  for (const BlameRow& row : facts.tables().by_type) {
    if (!row.type.empty())
      types.emplace_back(CopiesBy(causes, row.causes), absl::StrCat("objects of type ", Printable(row.type)));
  }
  for (const Place& place : places.with_line) {
    lines.emplace_back(place.copies,
                       absl::StrCat(LineText(place.line.frame),
                                    place.line.via.empty() ? "" : absl::StrCat(", via ", Printable(place.line.via))));
  }
  std::vector<std::string> out;
  for (auto* rows : {&types, &lines}) {
    std::stable_sort(rows->begin(), rows->end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < std::min<size_t>(rows->size(), 3); ++i) {
      const double share = static_cast<double>((*rows)[i].first) / std::max<uint64_t>(places.known, 1);
      const char* const separator = facts.tables().blame.estimated ? " (estimated): " : ": ";
      if (share >= kNoticeableLine) out.push_back(absl::StrCat(Percent(share), separator, (*rows)[i].second));
    }
  }
  return out;
}

// Returns the workers that copied more than noise, a noticeable part of it by these causes; if there are none, all that
// copied more than noise.
std::vector<pid_t> PidsOf(const Facts& facts, std::initializer_list<Cause> causes) {
  std::vector<pid_t> pids;
  for (const ProcessModel& process : facts.model.processes) {
    if (NotableCopies(process, facts.page_bytes) == 0) continue;
    if (CopiesBy(causes, *process.causes) >= kNoticeableShare * Sum(*process.causes)) pids.push_back(process.id.pid);
  }
  return pids.empty() ? facts.pids : pids;
}

// The native code that made the copies by these causes, be it the interpreter's.
std::optional<NativeCode> AnyCodeOf(const Facts& facts, std::initializer_list<Cause> causes) {
  return NativeCodeOf(facts.model, facts.tables().blame,
                      [&](const CopySite& site) { return absl::c_linear_search(causes, site.cause); });
}

// That of a program without Python, or a runtime's beside Python.
std::optional<NativeCode> NativeCodeOf(const Facts& facts, std::initializer_list<Cause> causes) {
  const std::optional<NativeCode> code = AnyCodeOf(facts, causes);
  return code && (facts.native() || !AdviceOn(*code).empty()) ? code : std::nullopt;
}

// Starts a diagnosis of copies by these causes. `doing`: "Reading Python objects". `opening`: of its summary, if that
// is not about the parent's memory.
Diagnosis FromCauses(const Facts& facts, std::initializer_list<Cause> causes, const char* id, absl::string_view doing,
                     std::string opening = "") {
  const uint64_t copies = CopiesBy(causes, facts.causes);
  const double share = static_cast<double>(copies) / std::max<uint64_t>(facts.copies, 1);
  Diagnosis diagnosis = {.id = id,
                         .confidence = std::min(0.99, 0.6 + 0.4 * share),
                         .bytes = facts.AtPeak(causes),
                         .pids = PidsOf(facts, causes)};
  const Places places = PlacesOf(facts, causes);
  if (opening.empty())
    opening = absl::StrCat(doing, " duplicated ", facts.Bytes(copies), " of ", facts.Owner(), "'s memory",
                           facts.WorkersInSum());
  diagnosis.summary = std::move(opening);
  if (!places.with_line.empty() && places.with_line[0].copies >= kNoticeableLine * places.known) {
    const Place& first = places.with_line[0];
    const Culprit culprit = {.frame = first.line.frame,
                             .via = first.line.via,
                             .type = TopTypeOf(first),
                             .share = static_cast<double>(first.copies) / places.known};
    absl::StrAppend(&diagnosis.summary, "; ", CulpritText(culprit, facts.tables().blame.estimated, "at"));
    if (!IsOfLibrary(culprit.frame)) diagnosis.culprit = culprit;
  } else if (const std::optional<NativeCode> code = NativeCodeOf(facts, causes)) {
    absl::StrAppend(&diagnosis.summary, "; ", NativeCodeText(*code, facts.tables().blame.estimated));
  }
  absl::StrAppend(&diagnosis.summary, ReleasedBeside(facts, copies), ".");
  diagnosis.evidence.push_back(absl::StrCat(HumanCount(copies), " of ", HumanCount(facts.copies), " copies (",
                                            Percent(share), ", ", facts.Bytes(copies), ")"));
  for (std::string& line : TopOf(facts, causes, places)) diagnosis.evidence.push_back(std::move(line));
  diagnosis.saves = SavingOf(diagnosis.bytes);
  return diagnosis;
}

// Whether copied pages were compared with the parent's, and nearly all are the same.
bool NothingWritten(const Facts& facts) {
  const std::optional<VerifyFigures> verified = VerifiedPages(facts.model);
  return verified && verified->pages >= kEnoughCompared && verified->identical >= kMostIdentical * verified->pages;
}

// Whether workers read inherited objects, too: then the collector may only have come first.
bool AlsoRead(const Facts& facts) { return facts.Matters({Cause::kRefcount}); }

}  // namespace

Diagnosis CowRefcount(const Facts& facts) {
  if (!facts.Matters({Cause::kRefcount})) return {};
  Diagnosis diagnosis = FromCauses(facts, {Cause::kRefcount}, "cow-refcount", "Reading Python objects");
  diagnosis.advice = {
      AdviceOnItems(facts),
      "Map such buffers from a file (numpy.memmap, Arrow), and all processes on the host that map it share one copy.",
      "gc.freeze() does not help here, and neither do the immortal objects of Python 3.12: ordinary str, int and dict "
      "objects still count references."};
  if (std::string advice = SpawnAdvice(facts); !advice.empty()) diagnosis.advice.push_back(std::move(advice));
  if (!facts.pids_are_ranks) {  // how many ranks there are is not a setting of memory
    diagnosis.advice.insert(
        diagnosis.advice.begin() + 1,
        absl::StrCat("Until then, use fewer workers: each can copy all of it.",
                     facts.dataloader() ? " With num_workers=0 nothing is copied: the trainer loads the data." : ""));
  }
  if (const auto& seen = facts.model.start_methods; seen && seen->look.object_array_items >= kLargeArray) {
    diagnosis.evidence.push_back(absl::StrCat(
        Printable(seen->look.object_array, 400), " is a numpy array of ", HumanCount(seen->look.object_array_items),
        " items with dtype=object: an array of references, whose items are copied like those of a list"));
  }
  return diagnosis;
}

bool ReadsTensors(const Facts& facts) {
  const Places places = PlacesOf(facts, {Cause::kNativeRefcount});
  if (places.with_line.empty()) return true;
  const std::string type = TopTypeOf(places.with_line[0]);
  return type.empty() || absl::StartsWith(type, "c10::") || absl::StartsWith(type, "at::") ||
         absl::StartsWith(type, "torch::");
}

Diagnosis TorchRefcount(const Facts& facts) {
  if (!facts.Matters({Cause::kNativeRefcount})) return {};
  Diagnosis diagnosis = FromCauses(facts, {Cause::kNativeRefcount}, "torch-refcount", "Reading C++ objects");
  // c10::TensorImpl, c10::StorageImpl: what a tensor is made of, c10/core/TensorImpl.h.
  const Places places = PlacesOf(facts, {Cause::kNativeRefcount});
  const bool tensors = !places.with_line.empty() && absl::StartsWith(TopTypeOf(places.with_line[0]), "c10::");
  if (tensors) diagnosis.summary.replace(0, strlen("Reading C++ objects"), "Reading many small torch tensors");
  diagnosis.evidence.push_back(
      "what was written are the reference counts in C++ objects (c10::intrusive_ptr, std::shared_ptr): an atomic "
      "instruction added or subtracted 1 behind the address of a table of virtual functions");
  if (!ReadsTensors(facts)) {
    diagnosis.advice = {
        "Keep the items in one array or table (numpy, an Arrow column) before the workers are forked: it has one "
        "reference count.",
        "gc.freeze() does not help here: these counts are not Python's."};
    return diagnosis;
  }
  diagnosis.advice = {
      "Keep one tensor for all items (torch.stack, or torch.cat and a tensor of offsets) before the workers are forked: it "
      "has one reference count.",
      "Then call malloc_trim(0), or the workers copy what the small tensors left in malloc's memory.",
      "gc.freeze() does not help here: these counts are not Python's."};
  return diagnosis;
}

Saving SavedByFreezing(const Facts& facts) {
  Saving saves = SavingOf(facts.AtPeak({Cause::kGcHeader}));
  if (AlsoRead(facts)) saves.low = saves.best = 0;
  return saves;
}

Diagnosis CowGcHeader(const Facts& facts) {
  if (!facts.Matters({Cause::kGcHeader})) return {};
  Diagnosis diagnosis = FromCauses(facts, {Cause::kGcHeader}, "cow-gc-header",
                                   absl::StrCat("Python's cycle collector ran in the ", facts.Copiers(),
                                                ", wrote to the headers of inherited objects, and"));
  diagnosis.saves = SavedByFreezing(facts);
  const char* const where = facts.BeforeTheFork("in the parent before it forks the workers");
  if (HasOlderPython(facts.model, 7)) {  // it has no gc.freeze()
    diagnosis.advice = {absl::StrCat("Call gc.collect() ", where,
                                     ", and gc.disable() in the workers if they create no cycles, since cycles would "
                                     "then never be freed.")};
    return diagnosis;
  }
  diagnosis.advice = {
      absl::StrCat("Call gc.collect() and then gc.freeze() ", where,
                   ": collections in the workers then leave the inherited objects alone, which removes this share (but "
                   "none of the share of reference counts).",
                   AlsoRead(facts) ? " What they read of these objects is copied anyway: see cow-refcount." : ""),
      "Or call gc.disable() in the workers if they create no cycles, since cycles would then never be freed."};
  if (!facts.from_forkserver) {
    diagnosis.advice.insert(
        diagnosis.advice.begin() + 1,
        "If the parent forks again and again, let it call gc.collect() and gc.freeze() before each fork, and "
        "gc.unfreeze() when these workers have ended: its own collector never frees what is frozen, so cycles that it "
        "no longer uses would pile up.");
  }
  return diagnosis;
}

namespace {

// Copies of the workers, ProcessModel::gup_copies or copies_of_files; `notable`: of those that copied more than noise.
uint64_t SumOfCopies(uint64_t ProcessModel::*copies, const Facts& facts, bool notable = false) {
  uint64_t sum = 0;
  ForEachRow(facts.model, [&](const ProcessModel& process) {
    const bool counts = notable ? NotableCopies(process, facts.page_bytes) > 0 : HasInheritedMemory(process);
    if (counts) sum += process.*copies;
  });
  return sum;
}

// Whether these are most of what was written, and no noise.
bool MatterAmong(uint64_t written, uint64_t ProcessModel::*copies, const Facts& facts) {
  return 2 * SumOfCopies(copies, facts) >= written && facts.Matters(SumOfCopies(copies, facts, /*notable=*/true));
}

// Nobody wrote, and no instruction is known.
Diagnosis CopiedByGup(const Facts& facts, uint64_t copies) {
  return {.id = "cow-data",
          .confidence = 0.85,
          .bytes = facts.AtPeak({Cause::kData, Cause::kKernel}),
          .summary = absl::StrCat(
              "System calls that lock, pin or prefault memory (mlockall, O_DIRECT, MADV_POPULATE_WRITE) duplicated ",
              facts.Bytes(copies), " of ", facts.Owner(), "'s memory", facts.WorkersInSum(), "."),
          .evidence = {absl::StrCat(HumanCount(copies), " of ", HumanCount(facts.copies),
                                    " copies without a page fault exception: the kernel counted the faults, and the "
                                    "sweep found the pages")},
          .advice = {"mlock(2) and mlockall(2) in a worker copy all inherited memory that is writable. Lock only what "
                     "the worker made itself, or lock pages as they are touched (MCL_ONFAULT, MLOCK_ONFAULT).",
                     "For direct I/O, registered buffers (io_uring, RDMA) and MADV_POPULATE_WRITE use buffers that the "
                     "worker made itself, or that are shared (MAP_SHARED): these are not copied.",
                     "`strace -f -p PID` shows which call it is; cowprof knows only the pages."},
          .pids = PidsOf(facts, {Cause::kData, Cause::kKernel})};
}

// Nobody had this memory before. `copies`: of pages of files.
Diagnosis CopiedFromFiles(const Facts& facts, uint64_t copies) {
  Diagnosis diagnosis = FromCauses(facts, {Cause::kData, Cause::kKernel}, "cow-data", "",
                                   absl::StrCat("Writing to private mappings of files (", kPrivateMaps, ") copied ",
                                                facts.Bytes(copies), " of their pages", facts.WorkersInSum()));
  diagnosis.evidence.push_back(absl::StrCat(HumanCount(copies), " pages of files became anonymous memory of the ",
                                            facts.Copiers(), " (RssAnon rose by as much); ", facts.Owner(),
                                            " has none there, so this was never its memory"));
  diagnosis.advice = {
      "Each page that a worker writes to is its own from then on, and never reaches the file. Where no write is meant, "
      "map the file for reading (mode=\"r\"): then all processes share its pages, and the line that writes raises an error.",
      "Where all workers need the result, write it once, to a file or to shared memory, and map that. Where one item is "
      "needed at a time, write to a copy of the item, and drop that.",
      "No start method helps, and neither does mapping the file before the fork."};
  diagnosis.saves.reset();
  return diagnosis;
}

// "": there is none, or nothing of Python is told.
std::string AllocatorBeside(const Facts& facts) {
  if (facts.native()) return "";
  std::string other = OtherAllocatorOf(facts.model);
  if (!other.empty()) return other;
  // pandas imports pyarrow, too: only what that wrote itself may lie in its allocator.
  const auto code = AnyCodeOf(facts, {Cause::kData, Cause::kKernel});
  return code ? std::string(OwnAllocatorOf(code->module)) : "";
}

std::string WritingOrAllocating(const Facts& facts, const std::string& allocator) {
  const std::string writing = absl::StrCat("Writing to memory that the ", facts.Copiers(), " inherited");
  if (allocator.empty()) return writing;
  return absl::StrCat(writing, ", or allocating what ", facts.Owner(), " had freed (", allocator,
                      " does not tell which),");
}

}  // namespace

Diagnosis CowData(const Facts& facts) {
  const uint64_t written = facts.Of(Cause::kData) + facts.Of(Cause::kKernel);
  if (MatterAmong(written, &ProcessModel::gup_copies, facts))
    return CopiedByGup(facts, SumOfCopies(&ProcessModel::gup_copies, facts));
  if (MatterAmong(written, &ProcessModel::copies_of_files, facts))
    return CopiedFromFiles(facts, SumOfCopies(&ProcessModel::copies_of_files, facts));
  if (!facts.Matters({Cause::kData, Cause::kKernel}) || NothingWritten(facts)) return {};
  const std::string allocator = AllocatorBeside(facts);
  Diagnosis diagnosis =
      FromCauses(facts, {Cause::kData, Cause::kKernel}, "cow-data", WritingOrAllocating(facts, allocator));
  // Of workers that were there at the attach nobody knows what malloc had free when they were forked.
  if (facts.Matters({Cause::kUnknown})) {
    diagnosis.summary.pop_back();
    absl::StrAppend(&diagnosis.summary, "; why ", facts.findings.workers.processes == 1 ? "it" : "they",
                    " copied another ", facts.Bytes(facts.Of(Cause::kUnknown)), " is unknown.");
  }
  if (facts.Of(Cause::kKernel) > 0) {
    diagnosis.evidence.push_back(
        absl::StrCat(facts.Bytes(facts.Of(Cause::kKernel)),
                     " of it by the kernel, in system calls such as read(2) into an inherited buffer"));
  }
  const auto writer = AnyCodeOf(facts, {Cause::kData, Cause::kKernel});
  if (writer && !facts.native() && !WritesArrays(*writer) && !IsPython(*writer))
    diagnosis.evidence.push_back(NativeCodeText(*writer, facts.tables().blame.estimated));
  diagnosis.saves.reset();  // nothing, if a worker keeps what it makes instead
  const std::optional<NativeCode> code = NativeCodeOf(facts, {Cause::kData, Cause::kKernel});
  if (code) diagnosis.advice = AdviceOn(*code);
  const bool runtime = !diagnosis.advice.empty();  // the text has the first three
  diagnosis.advice.insert(
      diagnosis.advice.begin() + std::min<size_t>(diagnosis.advice.size(), 2),
      absl::StrCat(runtime ? "If the program itself writes, and one" : "If one",
                   " result serves all workers, write to shared memory",
                   runtime || facts.native() ? " (mmap with MAP_SHARED)"
                                             : absl::StrCat(" (torch tensors with share_memory_(), numpy.memmap, ",
                                                            SharedMemoryOfPython(facts.model), ")"),
                   ". A buffer that is created in the worker saves memory only if the worker does not keep it."));
  if (!runtime) {
    diagnosis.advice.push_back(
        facts.native()
            ? "If the writes are a runtime's own, such as the marks of its garbage collector, see whether the workers "
              "can do without them. Making them before the fork helps with some runtimes (Ruby), not all (OCaml)."
            : absl::StrCat("If the writes normalise or cache data, do them once ",
                           facts.BeforeTheFork("in the parent before the fork"), "."));
  }
  if (const std::string releasing = AdviceOnReleasing(facts, written); !releasing.empty() && !runtime)
    diagnosis.advice.insert(diagnosis.advice.begin() + facts.native(), releasing);
  if (!allocator.empty()) diagnosis.advice.insert(diagnosis.advice.begin(), AdviceOnAllocator(allocator));
  return diagnosis;
}

bool ProgramWrites(const Facts& facts) {
  const uint64_t written = facts.Of(Cause::kData) + facts.Of(Cause::kKernel);
  const uint64_t others =
      std::max(SumOfCopies(&ProcessModel::gup_copies, facts), SumOfCopies(&ProcessModel::copies_of_files, facts));
  if (2 * others >= written || !AllocatorBeside(facts).empty()) return false;
  const auto code = AnyCodeOf(facts, {Cause::kData, Cause::kKernel});
  return code && WritesArrays(*code);
}

Diagnosis AllocatorReuse(const Facts& facts) {
  if (!facts.Matters({Cause::kMallocReuse})) return {};
  Diagnosis diagnosis =
      FromCauses(facts, {Cause::kMallocReuse}, "allocator-reuse",
                 absl::StrCat("Allocating memory that ", facts.Owner(), " had freed before the fork"));
  diagnosis.evidence.push_back(
      "these pages lay in free chunks of glibc's malloc at the fork: nobody writes inherited data, and without copies the "
      "workers would hold as much new memory");
  diagnosis.advice = {
      "It is the workers' own memory, whatever page it lies on. To shrink it, let them allocate less: what each would "
      "build alike (an index, a parsed file, a model), build once before the fork.",
      absl::StrCat("malloc_trim(0) ", facts.BeforeTheFork("right before the fork"), " returns to the kernel what ",
                   facts.Owner(), " has freed, and the workers get new pages instead of copies. That saves ",
                   facts.Owner(), "'s freed memory and the time of copying, but no memory of the workers.")};
  diagnosis.saves = Saving{};  // they take as much new memory instead
  return diagnosis;
}

}  // namespace cowprof
