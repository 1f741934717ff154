#include "model/judge/packing.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// A sample of 64 says little of items whose sizes differ widely, and long texts take as much pickled as they are.
constexpr double kClearlyMore = 3;

}  // namespace

const PickleItems* ItemsOf(const Facts& facts) {
  const SeenStartMethods* const seen = facts.start_methods();
  return seen && seen->look.items ? &*seen->look.items : nullptr;
}

uint64_t PackedBytes(const Facts& facts) {
  const PickleItems* const items = ItemsOf(facts);
  if (items == nullptr || items->sampled == 0) return 0;
  return SaturatingCast(static_cast<double>(items->bytes) / items->sampled * items->count);
}

bool AreReadByKey(const Facts& facts) {
  const PickleItems* const items = ItemsOf(facts);
  return items != nullptr && absl::EndsWithIgnoreCase(items->type, "dict");
}

std::string WhyNotPacked(const Facts& facts) {
  const uint64_t packed = PackedBytes(facts);
  if (packed == 0) return "";
  const PickleLook& look = facts.start_methods()->look;
  if (!look.held || packed <= kClearlyMore * look.held->best) return "";
  const PickleItems& items = *look.items;
  return absl::StrCat("items share objects, and pickled one by one all ", HumanCount(items.count), " of ",
                      Printable(items.path), " would take about ", HumanBytes(packed), "; as they are they take about ",
                      HumanBytes(look.held->best));
}

std::string AdviceOnItems(const Facts& facts) {
  const std::string buffers = absl::StrCat("Keep what all ", facts.Copiers(),
                                           " read in a few large buffers instead of many objects: numpy arrays (not "
                                           "dtype=object), Arrow tables, tensors");
  if (const std::string why = WhyNotPacked(facts); !why.empty())
    return absl::StrCat(
        buffers, "; each shared object once, and its number in the items. Don't pickle them into one buffer: ", why,
        ".");
  return absl::StrCat(buffers,
                      ", or all items pickled into one buffer. What each keeps of the items (a slice, sorted(), a "
                      "list of its own) is then new memory: let it keep indices.");
}

}  // namespace cowprof
