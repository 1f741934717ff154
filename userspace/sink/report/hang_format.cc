// Every name comes from the target and is made safe to print.
#include "sink/report/hang_format.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/hang_format.h"

namespace cowprof {
namespace {

constexpr size_t kMostFrames = 12;

std::string StackText(const std::vector<Frame>& stack) {
  std::string out;
  for (size_t i = 0; i < std::min(stack.size(), kMostFrames); ++i)
    absl::StrAppend(&out, "      ", FrameText(stack[i], true), "\n");
  if (stack.size() > kMostFrames) absl::StrAppend(&out, "      and ", stack.size() - kMostFrames, " more\n");
  return out;
}

}  // namespace

std::string HangsText(absl::Span<const Hang> hangs) {
  std::string out;
  for (const Hang& hang : hangs) {
    std::string sentence = HangSentence(hang, absl::StrCat("process ", hang.pid));
    sentence[0] = absl::ascii_toupper(sentence[0]);
    absl::StrAppend(&out, sentence, ".\n");
    absl::StrAppend(&out, "  why it is certain: ", WhyCertain(hang.proof), "\n");
    if (!hang.stack.empty()) absl::StrAppend(&out, "  its Python stack:\n", StackText(hang.stack));
    if (!hang.native.empty()) absl::StrAppend(&out, "  in native code: ", Printable(hang.native, 400), "\n");
    if (hang.holder && !hang.holder->stack.empty()) {
      absl::StrAppend(&out, "  ", HolderText(*hang.holder),
                      hang.holder->still_holds ? ", which still holds it:\n" : ":\n", StackText(hang.holder->stack));
    }
    for (const WaitForChildren& victim : hang.victims) absl::StrAppend(&out, "  meanwhile ", VictimText(victim), "\n");
    if (!hang.fix.empty()) absl::StrAppend(&out, "  do: ", Printable(hang.fix, 600), "\n");
    absl::StrAppend(&out, "\n");
  }
  return out;
}

std::string SuspectsText(absl::Span<const Hang> suspects) {
  std::string out;
  for (const Hang& suspect : suspects) {
    const Frame* frame = UserFrame(suspect.stack);
    absl::StrAppend(&out, "Not proven, but suspicious: ",
                    suspect.tid == suspect.pid ? "" : absl::StrCat("thread ", suspect.tid, " of "), "process ",
                    suspect.pid, " waits", frame == nullptr ? "" : absl::StrCat(" at ", FrameText(*frame, false)),
                    " for ", Printable(suspect.what, 400), ", for at most ", HumanDuration(suspect.waited),
                    ". Nothing but a handler of a signal could release it: all threads of the process wait, without "
                    "timeout.\n");
  }
  return out;
}

}  // namespace cowprof
