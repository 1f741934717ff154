// Compares pages, finds the objects on them, and lets the collector's counters decide where bytes leave two answers.
#include "attribution/page_evidence.h"

#include <algorithm>
#include <array>
#include <utility>

#include "posix/clock.h"
#include "python/object_heads.h"
#include "python/process_memory.h"

namespace cowprof {
namespace {

constexpr absl::Duration kMostAllowance = absl::Milliseconds(200);
constexpr size_t kEnoughForNow = 32;  // pages, whatever they cost
constexpr size_t kPageWords = CauseVerifier::kPageBytes / sizeof(uint64_t);
using PageWords = std::array<uint64_t, kPageWords>;

bool ReadPage(const MemoryReader& memory, uint64_t address, PageWords* words) {
  return memory.Read(address, absl::MakeSpan(reinterpret_cast<char*>(words->data()), CauseVerifier::kPageBytes));
}

// The type of one of the objects that the first write may have hit, chosen at random. 0: none has its head on the page.
uint64_t TypeOn(absl::Span<const ObjectHead> heads, const PageWords& own, const PageWords& parents, cowprof_shape shape,
                uint64_t chance) {
  std::vector<uint64_t> types, of_changed;
  for (const ObjectHead& head : heads) {
    if (shape == COWPROF_SHAPE_COLLECTION && !head.traits.has_gc) continue;
    if (shape == COWPROF_SHAPE_HASH && !head.traits.caches_hash) continue;
    types.push_back(head.type);
    const size_t written = head.word + (shape == COWPROF_SHAPE_HASH ? 3 : 0);
    if (written < kPageWords && own[written] != parents[written]) of_changed.push_back(head.type);
  }
  const std::vector<uint64_t>& likely = of_changed.empty() ? types : of_changed;
  return likely.empty() ? 0 : likely[chance % likely.size()];
}

}  // namespace

cowprof_shape ShapeOf(PageDiff diff, bool heads, bool tracked, Collected collected) {
  switch (diff) {
    case PageDiff::kData:
      return COWPROF_SHAPE_OUTSIDE;
    case PageDiff::kHashOnly:
      return COWPROF_SHAPE_HASH;
    case PageDiff::kGcHeaderOnly:
      return COWPROF_SHAPE_COLLECTION;
    case PageDiff::kRefcountOnly:
      return COWPROF_SHAPE_REFCOUNT;
    case PageDiff::kIdentical:
      break;
  }
  // A reference count went up and down again; or a collection wrote to the header of every tracked object, and
  // restored it.
  if (!heads) return COWPROF_SHAPE_UNREAD;
  if (!tracked || collected == Collected::kNo) return COWPROF_SHAPE_REFCOUNT;
  return collected == Collected::kYes ? COWPROF_SHAPE_COLLECTION : COWPROF_SHAPE_UNREAD;
}

void PageEvidence::AddAllowance(absl::Duration now, double share) {
  allowance_ = std::min(kMostAllowance, allowance_ + share * (now - std::exchange(last_, now)));
}

void PageEvidence::NoteCollections(const ProcessId& id, const Program& program) {
  Collections& known = collections_[id];
  known.before = std::exchange(known.now, program.FullCollections(id.pid));
}

// A new worker starts with its parent's count at the fork; that is known if the parent's has not moved since.
void PageEvidence::NoteBase(const ProcessId& worker, const ProcessId& parent, const Program& program) {
  const std::optional<uint64_t> parents = program.FullCollections(parent.pid);
  const std::optional<uint64_t> before = collections_[parent].before;
  Collections& own = collections_[worker];
  if (own.base || !own.now || !parents) return;
  own.base = std::min(*own.now, *parents);
  own.unclear = *own.base > before.value_or(0);
}

// What was copied so far is explained. The next sweep may still find copies of a collection of the last round.
void PageEvidence::Advance(Collections* own) {
  if (!own->before || !own->base) return;
  own->base = *own->before;
  own->unclear = false;
}

Collected PageEvidence::CollectedIn(const ProcessId& worker) const {
  const auto own = collections_.find(worker);
  if (own == collections_.end() || !own->second.now || !own->second.base) return Collected::kUnknown;
  if (*own->second.now > *own->second.base) return Collected::kYes;
  return own->second.unclear ? Collected::kUnknown : Collected::kNo;
}

std::optional<std::vector<ExplainedPage>> PageEvidence::Read(const ProcessId& worker, const ProcessId& parent,
                                                             Program& program, const std::vector<uint64_t>& copied) {
  std::vector<ExplainedPage> pages;
  // With a reason it may never become known.
  if (program.python() == Program::Python::kNotKnownYet && program.reason().empty()) return std::nullopt;
  const std::optional<HeadLayout> layout = program.Heads();
  NoteBase(worker, parent, program);
  if (copied.empty()) Advance(&collections_[worker]);
  if (copied.empty() || !layout || program.python() != Program::Python::kReadable) return pages;
  // A collection is counted when it is over, but writes before that.
  if (allowance_ <= absl::ZeroDuration() || program.IsCollecting(worker.pid)) return std::nullopt;
  const absl::Duration before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  program.memory().Prefer(worker);
  const PresentMemory own_memory(worker.pid, proc_), parent_memory(parent.pid, proc_);
  const VerifyTarget target = {0, own_memory, parent_memory, *layout, program.Types()};
  Collected collected = CollectedIn(worker);
  // It writes to nothing that was frozen: which of these were is not known.
  if (collected == Collected::kYes && program.HasFrozen(worker.pid)) collected = Collected::kUnknown;
  verifier_.Forget(0);
  verifier_.Offer(0, copied);
  PageWords own, parents;
  for (const PageVerdict& verdict : verifier_.Run(target, {.cpu = allowance_})) {
    // The verdicts are in random order, so those read before the break are a random sample, too.
    if (pages.size() >= kEnoughForNow && ReadClock(CLOCK_THREAD_CPUTIME_ID) - before > allowance_) break;
    if (!ReadPage(own_memory, verdict.address, &own) || !ReadPage(parent_memory, verdict.address, &parents)) continue;
    const std::vector<ObjectHead> heads = FindHeads(own, *layout, target.types);
    const bool tracked =
        std::any_of(heads.begin(), heads.end(), [](const ObjectHead& head) { return head.traits.has_gc; });
    const cowprof_shape shape = ShapeOf(verdict.diff, !heads.empty(), tracked, collected);
    const bool of_object = shape != COWPROF_SHAPE_OUTSIDE && shape != COWPROF_SHAPE_UNREAD;
    pages.push_back({verdict.address, shape, of_object ? TypeOn(heads, own, parents, shape, random_()) : 0});
  }
  allowance_ -= ReadClock(CLOCK_THREAD_CPUTIME_ID) - before;
  Advance(&collections_[worker]);
  return pages;
}

}  // namespace cowprof
