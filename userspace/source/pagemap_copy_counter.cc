// Sorts the pages that became a process's own into certain, likely and unclear copies, and spends its faults in that
// order.
#include "source/pagemap_copy_counter.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"

namespace cowprof {
namespace {

constexpr double kNearlyAll = 0.9;  // of the pages: then all are told as its own, though a few are the parent's

using Addresses = std::vector<uint64_t>;

void Append(uint64_t address, const PageBits& pages, uint64_t page_bytes, Addresses* addresses) {
  for (size_t i = pages._Find_first(); i < pages.size(); i = pages._Find_next(i))
    addresses->push_back(address + i * page_bytes);
}

// Pages that count if it had the faults for them.
struct Candidates {
  Addresses pages;
  std::vector<Addresses> huge;  // of hugetlb: one fault copies all of one

  void Add(const RegionSharing& region, const PageBits& found, uint64_t page_bytes) {
    if (found.any()) Append(region.address, found, page_bytes, region.hugetlb ? &huge.emplace_back() : &pages);
  }
  uint64_t count() const {
    return absl::c_accumulate(huge, pages.size(), [](uint64_t sum, const Addresses& one) { return sum + one.size(); });
  }
};

// How many of them count, from what is left of `faults`. `certain`: they can be nobody else's, and are told in any
// case.
uint64_t Spend(const Candidates& candidates, bool certain, uint64_t* faults, Addresses* own_pages) {
  const Addresses& pages = candidates.pages;
  uint64_t own = std::min<uint64_t>(pages.size(), *faults);
  *faults -= own;
  if (certain || own >= kNearlyAll * pages.size()) own_pages->insert(own_pages->end(), pages.begin(), pages.end());
  for (const Addresses& huge : candidates.huge) {
    const bool counts = *faults > 0;
    *faults -= counts;
    own += counts ? huge.size() : 0;
    if (certain || counts) own_pages->insert(own_pages->end(), huge.begin(), huge.end());
  }
  return own;
}

}  // namespace

NewCopies PagemapCopyCounter::Take(absl::Span<const RegionSharing> look, uint64_t page_bytes, uint64_t faults,
                                   const Family& family) {
  const bool first = std::exchange(first_, false), all_is_old = first && was_there_;
  NewCopies found;
  Candidates own, likely, unclear;                    // its own; its own, or nobody's; its own, or the parent's
  absl::flat_hash_map<uint64_t, PageBits> of_likely;  // that the parent had left
  absl::flat_hash_map<uint64_t, Known> now;
  for (const RegionSharing& region : look) {
    const auto before = known_.find(region.address);
    const Known was = before != known_.end() ? before->second : Known{.shared = first ? ~PageBits() : PageBits()};
    PageBits& parents = (*family.parent)[region.address];
    const PageBits left = was.shared & ~was.own & (was.left | parents);
    const PageBits became_own = was.shared & region.exclusive & region.peer;
    const PageBits held = (became_own & left).any() ? family.siblings(region.address, became_own & left) : PageBits();
    // It shares the page with others than the parent; a copy of its own it would share with its children.
    const PageBits just_left = region.shared & region.peer_exclusive & ~was.own & ~was.left;
    now[region.address] = {.shared = region.shared,
                           .own = was.own | became_own,
                           .left = region.shared & (left | just_left),
                           .inherited = became_own & left & ~held,
                           .peer = region.peer};
    if (has_children_ && became_own.any()) copied_[region.address] |= became_own;
    const PageBits told_by_parent = family.of_parent ? family.of_parent->OfItsParent(region.address) : PageBits();
    const PageBits new_parents = just_left & ~parents & ~told_by_parent;
    parents = (parents & ~(region.peer & ~region.peer_exclusive)) | just_left;
    if (all_is_old) continue;
    const PageBits both = region.peer_exclusive & ~left;
    own.Add(region, became_own & ~region.peer_exclusive & ~left, page_bytes);
    const PageBits nobodys = became_own & both & (was.own | told_by_parent);
    likely.Add(region, held | nobodys, page_bytes);
    unclear.Add(region, became_own & both & ~nobodys, page_bytes);
    Append(region.address, new_parents, page_bytes, &found.parents_pages);
    if (held.any()) of_likely[region.address] = held;
  }
  known_ = std::move(now);
  uint64_t left_over = faults;
  const uint64_t of_own = Spend(own, true, &left_over, &found.own_pages);
  const uint64_t of_likely_pages = Spend(likely, false, &left_over, &found.own_pages);
  const uint64_t of_unclear = Spend(unclear, false, &left_over, &found.own_pages);
  found.own = of_own + of_likely_pages + of_unclear;
  found.faults = faults - left_over;
  found.parents = found.parents_pages.size() + unclear.count() - of_unclear;
  // Otherwise the sibling copied them, as its own next look will show.
  if (of_likely_pages < kNearlyAll * likely.count()) {
    for (const auto& [address, pages] : of_likely) known_[address].inherited |= pages;
  }
  std::sort(found.own_pages.begin(), found.own_pages.end());
  return found;
}

PageBits PagemapCopyCounter::HoldsOfLeft(uint64_t address, const PageBits& parents) const {
  const auto known = known_.find(address);
  if (known == known_.end()) return {};
  const Known& of_it = known->second;
  return (of_it.shared & ~of_it.own & (of_it.left | parents)) | of_it.inherited;
}

PageBits PagemapCopyCounter::OfItsParent(uint64_t address) const {
  const auto known = known_.find(address);
  const auto copied = copied_.find(address);
  if (known == known_.end()) return {};
  return known->second.peer & (known->second.shared | (copied == copied_.end() ? PageBits() : copied->second));
}

}  // namespace cowprof
