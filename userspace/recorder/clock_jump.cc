// See wall_clock.h.
#include "wall_clock.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "model/words.h"

namespace cowprof {

std::optional<Event> WallClock::Look(absl::Duration t, absl::Time wall) {
  const std::optional<absl::Time> before = std::exchange(start_, wall - t);
  if (!before || absl::AbsDuration(*start_ - *before) <= absl::Seconds(1)) return std::nullopt;
  Event note = {.t = t, .kind = EventKind::kNote};
  note.text = absl::StrCat("the wall clock was set ", *start_ > *before ? "forward" : "back", " by ",
                           HumanDuration(absl::AbsDuration(*start_ - *before)),
                           "; the times of this recording count from its start and are not affected");
  return note;
}

}  // namespace cowprof
