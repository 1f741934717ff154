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

}  // namespace

NewCopies CopyTally::Take(absl::Span<const RegionSharing> look, uint64_t page_bytes, uint64_t most,
                          ParentsCopies* parent) {
  const bool first = std::exchange(first_, false), all_is_old = first && was_there_;
  NewCopies found;
  std::vector<uint64_t> unclear;
  absl::flat_hash_map<uint64_t, Known> now;
  for (const RegionSharing& region : look) {
    const auto before = known_.find(region.address);
    const Known was = before != known_.end() ? before->second : Known{.shared = first ? ~PageBits() : PageBits()};
    const PageBits copied = was.shared & region.exclusive & region.peer;
    now[region.address] = {.shared = region.shared, .copied = was.copied | copied};
    // It shares the page with others than the parent; a copy of its own it would share with its children.
    const PageBits parents = region.shared & region.peer_exclusive & ~was.copied;
    PageBits& known_parents = (*parent)[region.address];
    const PageBits new_parents = parents & ~known_parents;
    known_parents = (known_parents & ~(region.peer & ~region.peer_exclusive)) | parents;
    if (all_is_old) continue;
    Append(region.address, copied & ~region.peer_exclusive, page_bytes, &found.own_pages);
    Append(region.address, copied & region.peer_exclusive, page_bytes, &unclear);
    Append(region.address, new_parents, page_bytes, &found.parents_pages);
  }
  known_ = std::move(now);
  found.own = std::min<uint64_t>(found.own_pages.size(), most);
  const uint64_t own_of_unclear = std::min<uint64_t>(unclear.size(), most - found.own);
  found.own += own_of_unclear;
  found.parents = found.parents_pages.size() + unclear.size() - own_of_unclear;
  if (own_of_unclear >= kNearlyAll * unclear.size())
    found.own_pages.insert(found.own_pages.end(), unclear.begin(), unclear.end());
  std::sort(found.own_pages.begin(), found.own_pages.end());
  return found;
}

}  // namespace cowprof
