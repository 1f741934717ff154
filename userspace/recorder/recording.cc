#include "recorder/recording.h"

#include "posix/exit_status.h"

namespace cowprof {

void Say(absl::string_view sentence, Recording* recording) {
  for (const std::unique_ptr<Sink>& sink : recording->sinks) sink->Yield();
  recording->err.Put(LineOf(sentence));
}

}  // namespace cowprof
