// Writes seeds for the fuzz targets, one folder per target, from the generators of the unit tests and from this
// machine's /proc: make_seeds FOLDER. PickOne() reads the last byte of a seed.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "elf_image.h"
#include "fuzz.h"
#include "hostile_memory.h"
#include "python/debug_offsets.h"
#include "random_recording.h"
#include "source/procfs.h"
#include "timeline/json_timeline.h"

namespace cowprof {
namespace {

class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path) { std::filesystem::create_directories(path); }
  void Add(absl::string_view seed) { std::ofstream(absl::StrCat(path_, "/", count_++), std::ios::binary) << seed; }
  void Add(absl::string_view seed, char choice) { Add(absl::StrCat(seed, std::string(1, choice))); }

 private:
  std::string path_;
  int count_ = 0;
};

std::string Own(const std::string& file) { return ReadSmallFile("/proc/self/" + file).value_or("").substr(0, 4000); }

void MakeProcfs(Folder folder) {
  folder.Add(Own("stat"), 0);
  folder.Add("7 (a) (b) R 1 1 1 0 -1 4194304 1 1 1 1 1 1 1 1 20 0 1 0 77 4096 1 1\n", 0);
  folder.Add(Own("status"), 1);
  folder.Add(Own("smaps_rollup"), 2);
  folder.Add(Own("maps"), 3);
  folder.Add("7f00-8f00 rw-p 00000000 fe:00 1234     /dev/shm/a b (deleted)\n8f00-9f00 ---p 0 00:00 0\n", 3);
  folder.Add(std::string("python3\0-c\0import x\0", 20), 4);
  folder.Add(Own("limits"), 5);
  folder.Add(ReadSmallFile("/proc/meminfo").value_or(""), 6);
}

void MakeCgroup(Folder folder) {
  folder.Add(Own("cgroup") + "\n \n" + Own("mountinfo"), 0);
  folder.Add("0::/a.slice/b\n \n31 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n", 0);
  folder.Add("4:cpu,memory:/a/b\n \n35 31 0:32 /a /sys/fs/cgroup/m\\040e rw - cgroup cgroup rw,memory\n", 0);
  folder.Add("9223372036854771712\n", 1);
  folder.Add("max\n", 1);
  folder.Add("4096\n\n \n12\n\n \ntotal_inactive_file 5\ntotal_active_file 1\n\n \noom_kill 2\n", 2);
  folder.Add("max\n\n \n99\n\n \ninactive_file 5\nactive_file 1\nslab_reclaimable 7\n\n \nmax 3\noom_kill 2\n", 3);
}

void MakeElf(Folder folder) {
  ElfImage image = {.dynamic_symbols = {{"PyType_Type", 0x400200, 400, STT_OBJECT}, {"f", 0x400100, 16}},
                    .symbols = {{"_PyRuntime", 0x400300, 8, STT_OBJECT}, {"_Z1fv", 0x400110, 0}},
                    .needed = {"libpython3.11.so.1.0"}};
  folder.Add(image.Build(), 0);
  image.type = ET_EXEC;
  image.symbols.clear();
  folder.Add(image.Build(), 0);
  for (const char* name : {"_ZN2at6native3addERKNS_6TensorES3_", "_Z1fIJidEEvDpT_", "_ZNSt6vectorIiSaIiEE9push_backEOi",
                           "_Z1fIXadL_Z1gvEEEvv", "_ZZ4mainENKUlvE_clEv", "_ZTVN10__cxxabiv1E"})
    folder.Add(name, 1);
}

void MakeTimeline(Folder folder) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    RandomRecording recording(seed);
    RecordEncoder encoder;
    std::string text = EncodeHeader(recording.Info());
    for (unsigned i = 0; i < 1 + 2 * seed; ++i) {
      absl::StrAppend(&text, i == 0 ? "\n" : "\n,", encoder.Encode(recording.Next()));
      encoder.Commit();
    }
    if (seed % 2 == 0) absl::StrAppend(&text, "\n,", EncodeEnd(absl::Seconds(9), "target ended"), "\n]}\n");
    folder.Add(text);
  }
  folder.Add(R"({"schema": "cowprof.timeline/1", "header": {}, "records": [{"t": 1, "type": "sample"}]})");
  folder.Add(R"({"schema":"cowprof.timeline/2"})");
}

void MakeRecords(Folder folder) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    RandomRecording recording(seed);
    RecordEncoder encoder;
    std::string text;
    for (unsigned i = 0; i < 1 + seed; ++i) {
      absl::StrAppend(&text, absl::StrReplaceAll(encoder.Encode(recording.Next()), {{",\n", "\n"}}), "\n");
      encoder.Commit();
    }
    folder.Add(text);
  }
  folder.Add(
      R"({"t":1.5,"type":"sample","processes":[[0,1,null]],"rollups":[[0,0.25,7]],"pages":[[0,"data",5,[1,2]]]})");
}

void MakeOptions(Folder folder) {
  for (const char* words :
       {"--attach\n12\n--duration=30s\n-o\nx.json", "--interval=0.5\n--quiet\n--\npython3\n--live",
        "report\nx.json\n--json", "view\na\nb\n-o\nc.html", "doctor\n--workers\n8\n12", "shm",
        "--serve=127.0.0.1:80\n--attach=1", "--help",
        "--alert-at=shm=80%:10s\n--alert-eta=off\n--on-alert=a 'b c'\n--attach\n1", "--without\ncauses\n--version"})
    folder.Add(words, 0);
  for (const char* value : {"90%", "0.5", "1h30m", "[::1]:80", "127.0.0.1", "a \"b\\\" c\" 'd'\\ e", "80%:10s", "inf"})
    folder.Add(value, 1);
}

// They consume choices from the end, so any bytes will do: memory as recorded at first, damaged later.
void MakePython(Folder folder) {
  for (char choice = 0; choice < static_cast<char>(RecordedPythons().size()); ++choice) {
    for (const char flags : {0, 1}) {
      const std::string undamaged(400, '\xff');
      folder.Add(absl::StrCat(undamaged, std::string(3, flags)), choice);
    }
  }
}

void MakeBytes(Folder folder) {
  folder.Add("\x80\x01\x88\x02\xf0\x03\xe8\x04", 0);
  for (const RecordedPython& python : RecordedPythons()) {
    std::string table(kDebugOffsetsBytes, '\0');
    if (python.recording.memory.Read(python.recording.module.runtime, absl::MakeSpan(table.data(), table.size())))
      folder.Add(absl::StrCat(table, std::string(2, '\0'), std::string(1, '\x07'), std::string(1, '\x08')), 1);
  }
  folder.Add(std::string("\x83\x00\x01\x90", 4), 3);
  folder.Add(std::string(200, '\1'), 4);
}

}  // namespace
}  // namespace cowprof

int main(int argc, char** argv) {
  using namespace cowprof;
  if (argc != 2) return 2;
  const auto folder = [&](const char* target) { return Folder(absl::StrCat(argv[1], "/", target)); };
  MakeProcfs(folder("procfs"));
  MakeCgroup(folder("cgroup"));
  MakeElf(folder("elf"));
  MakeTimeline(folder("timeline"));
  MakeRecords(folder("records"));
  MakeOptions(folder("options"));
  MakePython(folder("python_interpreter"));
  MakePython(folder("python_objects"));
  MakePython(folder("pickle"));
  MakeBytes(folder("python_bytes"));
  for (const char* target : {"pagemap", "request", "names"}) folder(target).Add(std::string(300, '\1'));
  return 0;
}
