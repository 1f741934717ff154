// Runs a Python with tests/fixtures/python/workload/sample.py, compares what userspace/python reads with what the
// program reports about itself, and saves what was read as a fixture for the unit tests.
// scripts/record-python-fixtures.sh runs it for every interpreter of a machine.
//
// usage: record_python FIXTURE PYTHON [ARGUMENT...]     FIXTURE "-": compare only
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "python/interpreter.h"
#include "python/process_memory.h"
#include "python_recording.h"
#include "source/procfs.h"

extern char** environ;

namespace cowprof {
namespace {

class Workload {
 public:
  explicit Workload(char** command) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    for (const int fd : {to[0], to[1], from[0], from[1]}) posix_spawn_file_actions_addclose(&actions, fd);
    if (posix_spawnp(&pid_, command[0], &actions, nullptr, command, environ) != 0) pid_ = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    input_ = to[1];
    output_ = fdopen(from[0], "r");
  }
  ~Workload() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (output_ != nullptr) fclose(output_);
    close(input_);
  }
  pid_t pid() const { return pid_; }
  bool ReadLine(std::string* line) {
    char* text = nullptr;
    size_t capacity = 0;
    const ssize_t bytes = output_ == nullptr ? -1 : getline(&text, &capacity, output_);
    if (bytes > 0) line->assign(text, text[bytes - 1] == '\n' ? bytes - 1 : bytes);
    free(text);
    return bytes > 0;
  }
  void Continue() { (void)!write(input_, "\n", 1); }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  FILE* output_ = nullptr;
};

int Fail(absl::string_view why) {
  fprintf(stderr, "record_python: %s\n", std::string(why).c_str());
  return 1;
}

// The module that FindInterpreter() chose, without the paths of this machine.
absl::StatusOr<PythonModule> FindModule(const ProcFs& proc, pid_t pid, const Interpreter& interpreter) {
  const auto mappings = proc.ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  absl::StatusOr<std::vector<PythonModule>> modules = FindPythonModules(proc, pid, *mappings);
  if (!modules.ok()) return modules.status();
  for (PythonModule& module : *modules) {
    if (module.code_type != interpreter.code_type) continue;
    module.path = module.path.substr(module.path.rfind('/') + 1);
    return module;
  }
  return absl::NotFoundError("find the module again");
}

// Of .bss only the version text is worth saving: narrows the search to it.
void NarrowBss(const MemoryReader& memory, absl::string_view version, PythonModule* module) {
  std::string bss(module->bss_end - module->bss_begin, '\0');
  ReadOrZero(memory, module->bss_begin, absl::MakeSpan(bss.data(), bss.size()));
  const size_t at = bss.find(absl::StrCat(version, " ("));
  if (at == bss.npos) return;
  module->bss_end = module->bss_begin + at + 256;
  module->bss_begin += at - 16;
}

int Record(const std::string& fixture, char** command) {
  Workload workload(command);
  if (workload.pid() == 0) return Fail("start the workload");
  const ProcFs proc;
  ProgramFiles files;
  const ProcessMemory live(workload.pid(), ProcFs(), &files);
  PythonRecording recording;
  std::vector<std::string> mistakes;
  std::string line;
  while (workload.ReadLine(&line) && line != "end") {
    if (!absl::StartsWith(line, "gc ")) {
      if (!ParseTruthLine(line, &recording.truth))
        return Fail(absl::StrCat("unexpected output of the workload: ", line));
      continue;
    }
    const auto interpreter = FindInterpreter(proc, workload.pid(), live);
    if (!interpreter.ok()) return Fail(interpreter.status().ToString());
    const auto collecting = ReadValue<int32_t>(live, interpreter->collecting_address);
    if (!collecting || absl::StrCat("gc ", *collecting) != line) {
      mistakes.push_back(absl::StrCat("collecting: ", collecting.value_or(-1), ", not ", line));
    }
    workload.Continue();
  }
  if (line != "end") return Fail("the workload ended early");

  const auto interpreter = FindInterpreter(proc, workload.pid(), live);
  if (!interpreter.ok()) return Fail(interpreter.status().ToString());
  auto module = FindModule(proc, workload.pid(), *interpreter);
  if (!module.ok()) return Fail(module.status().ToString());
  if (fixture != "-") NarrowBss(live, interpreter->version, &*module);
  const RecordingMemory memory(live);
  const auto again = ReadInterpreter(*module, memory);
  if (!again.ok() || !again->ready) return Fail("the interpreter can't be read a second time");
  if (again->tsd_offset == 0) mistakes.push_back("the key of the thread states is unknown");
  for (std::string& mistake : FindMistakes(recording.truth, *again, memory)) mistakes.push_back(std::move(mistake));
  size_t frames = 0;
  for (const auto& thread : recording.truth.threads) frames += thread.frames.size();
  printf("%-8s %zu threads, %zu frames, %zu types, %zu objects: %zu mistakes; tsd %#lx, pools %lu%s%s%s\n",
         again->version.c_str(), recording.truth.threads.size(), frames, recording.truth.types.size(),
         recording.truth.objects.size(), mistakes.size(), again->tsd_offset, again->pool_bytes,
         again->free_threaded ? ", free-threaded" : "", again->debug ? ", debug" : "",
         again->trace_refs ? ", trace refs" : "");
  for (const std::string& mistake : mistakes) printf("  %s\n", mistake.c_str());
  if (fixture != "-") {
    recording.version = again->version;
    recording.module = *module;
    recording.memory = memory.recorded();
    std::ofstream(fixture, std::ios::binary) << FormatRecording(recording);
  }
  return mistakes.empty() ? 0 : 1;
}

}  // namespace
}  // namespace cowprof

int main(int argc, char** argv) {
  if (argc < 3) return cowprof::Fail("usage: record_python FIXTURE|- PYTHON [ARGUMENT...]");
  return cowprof::Record(argv[1], argv + 2);
}
