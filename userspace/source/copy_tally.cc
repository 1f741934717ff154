// See copy_tally.h.
#include "source/copy_tally.h"

#include <algorithm>
#include <utility>

namespace cowprof {
namespace {

constexpr double kNearlyAll = 0.9;  // then all pages are told as its own, though a few are the parent's

void Append(uint64_t address, const PageBits& pages, uint64_t page_bytes, std::vector<uint64_t>* addresses) {
  for (size_t i = pages._Find_first(); i < pages.size(); i = pages._Find_next(i))
    addresses->push_back(address + i * page_bytes);
}

// Of pages that count if it had the faults for them: how many do, from what is left of `most`.
uint64_t Spend(const std::vector<uint64_t>& pages, uint64_t* most, std::vector<uint64_t>* own_pages) {
  const uint64_t own = std::min<uint64_t>(pages.size(), *most);
  *most -= own;
  if (own >= kNearlyAll * pages.size()) own_pages->insert(own_pages->end(), pages.begin(), pages.end());
  return own;
}

}  // namespace

NewCopies CopyTally::Take(absl::Span<const RegionSharing> look, uint64_t page_bytes, uint64_t most,
                          const Family& family) {
  const bool first = std::exchange(first_, false), all_is_old = first && was_there_;
  NewCopies found;
  std::vector<uint64_t> likely, unclear;              // its own, or nobody's; its own, or the parent's
  absl::flat_hash_map<uint64_t, PageBits> of_likely;  // that the parent had left
  absl::flat_hash_map<uint64_t, Known> now;
  uint64_t most_huge = most;
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
    const PageBits told_by_parent = family.of_parent ? family.of_parent->OfItsParent(region.address) : PageBits();
    const PageBits new_parents = just_left & ~parents & ~told_by_parent;
    parents = (parents & ~(region.peer & ~region.peer_exclusive)) | just_left;
    if (all_is_old) continue;
    if (region.hugetlb && became_own.any() && most_huge > 0) {
      --most_huge;
      most += became_own.count() - 1;
    }
    const PageBits both = region.peer_exclusive & ~left;
    Append(region.address, became_own & ~region.peer_exclusive & ~left, page_bytes, &found.own_pages);
    const PageBits nobodys = became_own & both & (was.own | told_by_parent);
    Append(region.address, held | nobodys, page_bytes, &likely);
    Append(region.address, became_own & both & ~nobodys, page_bytes, &unclear);
    Append(region.address, new_parents, page_bytes, &found.parents_pages);
    if (held.any()) of_likely[region.address] = held;
  }
  known_ = std::move(now);
  found.own = std::min<uint64_t>(found.own_pages.size(), most);
  most -= found.own;
  const uint64_t own_of_likely = Spend(likely, &most, &found.own_pages);
  const uint64_t own_of_unclear = Spend(unclear, &most, &found.own_pages);
  found.own += own_of_likely + own_of_unclear;
  found.parents = found.parents_pages.size() + unclear.size() - own_of_unclear;
  // Then it was the sibling that copied them, which will be seen to have.
  if (own_of_likely < kNearlyAll * likely.size()) {
    for (const auto& [address, pages] : of_likely) known_[address].inherited |= pages;
  }
  std::sort(found.own_pages.begin(), found.own_pages.end());
  return found;
}

PageBits CopyTally::HoldsOfLeft(uint64_t address, const PageBits& parents) const {
  const auto known = known_.find(address);
  if (known == known_.end()) return {};
  const Known& of_it = known->second;
  return (of_it.shared & ~of_it.own & (of_it.left | parents)) | of_it.inherited;
}

PageBits CopyTally::OfItsParent(uint64_t address) const {
  const auto known = known_.find(address);
  return known == known_.end() ? PageBits() : known->second.peer;
}

}  // namespace cowprof
