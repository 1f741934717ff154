// A jump changes the wall clock time that t = 0 corresponds to.
#include "recorder/clock_jump.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "model/format.h"

namespace cowprof {

std::optional<Event> ClockJump::Look(absl::Duration t, absl::Time start) {
  const std::optional<absl::Time> before = std::exchange(start_, start);
  if (!before || absl::AbsDuration(*start_ - *before) <= absl::Seconds(1)) return std::nullopt;
  const std::string text = absl::StrCat("the wall clock was set ", *start_ > *before ? "forward" : "back", " by ",
                                        HumanDuration(absl::AbsDuration(*start_ - *before)),
                                        "; the times in this recording count from its start and are not affected");
  return Event{.t = t, .what = Note{text}};
}

}  // namespace cowprof
