// proc_text.cc and procfs.cc on text recorded from Linux 6.18, on hostile text, and on a folder that poses as /proc.
// Every text could come from a process or a kernel, complete or truncated. procfs_live_test.cc uses the real /proc.
#include "source/procfs.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

// Recorded: `cat /proc/self/stat`.
constexpr char kStat[] =
    "7365 (cat) R 7353 7353 6503 0 -1 4194304 102 0 0 0 7 5 0 0 20 0 1 0 164295 3133440 383 "
    "18446744073709551615 94648120606720 94648120626601 140727040817616 0 0 0 0 0 0 0 0 0 17 0 0 0 "
    "0 0 0 94648120642608 94648120644224 94648329625600 140727040825948 140727040826004 "
    "140727040826004 140727040827371 0\n";

// Recorded: `cat /proc/self/status`, without the lines about signals and masks.
constexpr char kStatus[] =
    "Name:\tcat\nUmask:\t0022\nState:\tR (running)\nTgid:\t7365\nPid:\t7365\nPPid:\t7353\n"
    "Uid:\t1000\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t256\nGroups:\t \nNStgid:\t7365\n"
    "NSpid:\t7365\t12\t1\nKthread:\t0\nVmPeak:\t    3060 kB\nVmSize:\t    3060 kB\n"
    "VmRSS:\t    1708 kB\nRssAnon:\t     112 kB\nRssFile:\t    1596 kB\nRssShmem:\t       0 kB\n"
    "VmData:\t     360 kB\nVmSwap:\t      64 kB\nHugetlbPages:\t       0 kB\nThreads:\t1\n";

// Recorded: `cat /proc/self/smaps_rollup`.
constexpr char kRollup[] =
    "558ca35e6000-7fffffe93000 ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:                1740 kB\nPss:                 484 kB\nPss_Dirty:           116 kB\n"
    "Pss_Anon:            116 kB\nPss_File:            368 kB\nPss_Shmem:             0 kB\n"
    "Shared_Clean:       1552 kB\nShared_Dirty:          0 kB\nPrivate_Clean:        72 kB\n"
    "Private_Dirty:       116 kB\nReferenced:         1740 kB\nAnonymous:           116 kB\n"
    "KSM:                   0 kB\nLazyFree:              0 kB\nAnonHugePages:         0 kB\n"
    "ShmemPmdMapped:        0 kB\nFilePmdMapped:         0 kB\nShared_Hugetlb:        0 kB\n"
    "Private_Hugetlb:    2048 kB\nSwap:                  8 kB\nSwapPss:               4 kB\n"
    "Locked:                0 kB\n";

// Recorded: `cat /proc/self/limits`, some rows.
constexpr char kLimits[] =
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max cpu time              unlimited            unlimited            seconds   \n"
    "Max stack size            8388608              unlimited            bytes     \n"
    "Max open files            20000                30000                files     \n"
    "Max address space         unlimited            unlimited            bytes     \n"
    "Max nice priority         0                    0                    \n";

std::string StatOf(const std::string& comm) {
  std::string text = kStat;
  return text.replace(text.find("cat"), 3, comm);
}

// A stat line whose field `number` (as in proc(5)) reads `value`.
std::string StatWith(int number, const std::string& value) {
  std::string text = kStat;
  size_t begin = 0;
  for (int n = 1; n < number; ++n) begin = text.find(' ', begin) + 1;
  return text.replace(begin, text.find(' ', begin) - begin, value);
}

}  // namespace

TEST_CASE("stat as the kernel writes it") {
  const auto stat = ParseStat(kStat);
  REQUIRE(stat.ok());
  CHECK(stat->comm == "cat");
  CHECK(stat->state == 'R');
  CHECK(stat->parent == 7353);
  CHECK(stat->flags == 4194304);
  CHECK(stat->user_ticks == 7);
  CHECK(stat->system_ticks == 5);
  CHECK(stat->threads == 1);
  CHECK(stat->start_ticks == 164295);
  CHECK(stat->virtual_bytes == 3133440);
}

TEST_CASE("stat of a process with a misleading name") {
  const std::string comm = GENERATE(as<std::string>(), ") (", "a) R 1 2 3", "x\ny", "((((", "))))", "", " ", "\t)\n(",
                                    std::string("a\0b", 3), "\xff\xfe", "cat) S 1 1 1 0");
  const auto stat = ParseStat(StatOf(comm));
  REQUIRE(stat.ok());
  CHECK(stat->comm == comm);
  CHECK(stat->parent == 7353);
  CHECK(stat->start_ticks == 164295);
}

TEST_CASE("stat truncated anywhere is refused, never misread") {
  // The last required field is the 23rd; truncation after the blank behind it loses nothing.
  const std::string text = kStat;
  const size_t needed = text.find(" 383 ");
  for (size_t size = 0; size < text.size(); ++size) {
    const auto stat = ParseStat(text.substr(0, size));
    INFO(size);
    CHECK(stat.ok() == (size > needed));
    if (stat.ok()) CHECK(stat->virtual_bytes == 3133440);
  }
}

TEST_CASE("stat with fields that are not numbers, negative or too large is refused") {
  const int field = GENERATE(4, 9, 14, 15, 20, 22, 23);
  const std::string value = GENERATE(as<std::string>(), "-1", "18446744073709551616", "99999999999999999999999", "x",
                                     "1x", "+1", "0x10", "1.5", std::string("1\0", 2));
  INFO(field << " = " << value);
  CHECK(absl::IsInvalidArgument(ParseStat(StatWith(field, value)).status()));
  CHECK(ParseStat(StatWith(field, "1")).ok());
}

TEST_CASE("stat: the extremes of a field are numbers") {
  const auto stat = ParseStat(StatWith(22, "18446744073709551615"));
  REQUIRE(stat.ok());
  CHECK(stat->start_ticks == UINT64_MAX);
}

TEST_CASE("stat with other text") {
  const std::string text = GENERATE(as<std::string>(), "", "\n", ")(", "(", ")", "()", "1 () ", std::string(3, '\0'),
                                    std::string(1 << 20, '('), std::string(1 << 20, ')'), std::string(1 << 20, ' '));
  CHECK(absl::IsInvalidArgument(ParseStat(text).status()));
}

TEST_CASE("status as the kernel writes it") {
  const ProcStatus status = ParseStatus(kStatus);
  CHECK(status.anon_bytes == 112 * 1024);
  CHECK(status.file_bytes == 1596 * 1024);
  CHECK(status.shmem_bytes == 0);
  CHECK(status.swap_bytes == 64 * 1024);
  CHECK(status.anonymous_bytes() == 176 * 1024);
  CHECK(status.process == 7365);
  CHECK(status.namespace_pids == std::vector<pid_t>{7365, 12, 1});
}

TEST_CASE("status of a kernel thread: absent is not 0") {
  const ProcStatus status = ParseStatus("Name:\tkthreadd\nUid:\t0\t0\t0\t0\nNSpid:\t2\n");
  CHECK_FALSE(status.anon_bytes);
  CHECK_FALSE(status.swap_bytes);
  CHECK_FALSE(status.anonymous_bytes());
  CHECK(status.namespace_pids == std::vector<pid_t>{2});
}

TEST_CASE("status: an implausible figure is absent") {
  const std::string value = GENERATE(as<std::string>(), "", " ", "112", "112 k", "112 MB", "-112 kB", "+112 kB",
                                     "1e3 kB", "112kB", "18446744073709551616 kB", "18446744073709551615 kB", "kB",
                                     "0x70 kB", std::string("112\0 kB", 7), std::string(1 << 20, '1') + " kB");
  const ProcStatus status = ParseStatus("RssAnon:\t" + value + "\nRssFile:\t4 kB\nNSpid:\t1\t-5\nUid:\t-1\n");
  CHECK_FALSE(status.anon_bytes);
  CHECK(status.file_bytes == 4096);
  CHECK(status.namespace_pids.empty());
}

TEST_CASE("status: keys match completely, also without a final newline") {
  CHECK_FALSE(ParseStatus("XRssAnon:\t4 kB\nRssAnonX:\t4 kB\nRssAnon\t4 kB\n").anon_bytes);
  CHECK(ParseStatus("RssAnon:\t4 kB").anon_bytes == 4096);
  // The kernel writes a newline in a name as two characters, so it does not start a line.
  CHECK_FALSE(ParseStatus("Name:\tx\\nRssAnon:\t4 kB\n").anon_bytes);
}

TEST_CASE("rollup as the kernel writes it") {
  const auto rollup = ParseRollup(kRollup);
  REQUIRE(rollup.ok());
  CHECK(rollup->rss_bytes == 1740 * 1024);
  CHECK(rollup->pss_bytes == 484 * 1024);
  CHECK(rollup->private_bytes == (72 + 116 + 2048) * 1024);
  CHECK(rollup->anonymous_bytes == 116 * 1024);
  CHECK(rollup->swap_bytes == 8 * 1024);
}

// Recorded: two mappings of /proc/PID/smaps, some lines, of a worker that wrote 4 MiB of memory that it inherited as
// MAP_SHARED | MAP_ANONYMOUS, and of one without a file.
constexpr char kSmaps[] =
    "7f7cdca00000-7f7ce9200000 rw-s 00000000 00:01 3083                       /dev/zero (deleted)\n"
    "Size:             204800 kB\nRss:                4096 kB\nPss:                4096 kB\n"
    "Shared_Clean:          0 kB\nShared_Dirty:          0 kB\nPrivate_Clean:         0 kB\n"
    "Private_Dirty:      4096 kB\nReferenced:         4096 kB\nAnonymous:             0 kB\n"
    "Private_Hugetlb:       0 kB\nSwap:                  0 kB\nTHPeligible:    0\n"
    "VmFlags: rd wr sh mr mw me ms sd \n"
    "7f7ce93b0000-7f7ce93c0000 rw-p 00000000 00:00 0 \n"
    "Size:                 64 kB\nRss:                  60 kB\nPss:                  36 kB\n"
    "Shared_Clean:          0 kB\nShared_Dirty:         48 kB\nPrivate_Clean:         0 kB\n"
    "Private_Dirty:        12 kB\nReferenced:           12 kB\nAnonymous:            60 kB\n"
    "Private_Hugetlb:       0 kB\nSwap:                  4 kB\nTHPeligible:    0\n"
    "VmFlags: rd wr mr mw me ac sd \n";

TEST_CASE("smaps is added up, and what a shared mapping holds is not private") {
  const auto rollup = ParseRollup(kSmaps);
  REQUIRE(rollup.ok());
  CHECK(rollup->rss_bytes == 4156 * 1024);
  CHECK(rollup->pss_bytes == 4132 * 1024);
  CHECK(rollup->private_bytes == 12 * 1024);
  CHECK(rollup->anonymous_bytes == 60 * 1024);
  CHECK(rollup->swap_bytes == 4 * 1024);
}

TEST_CASE("rollup without a usable Rss line is refused") {
  const std::string text = GENERATE(as<std::string>(), "", "Pss: 4 kB\n", "Rss: x kB\n", "Rss: 4\n",
                                    "Rss:", "Rss: -4 kB\n", "Rss: 18446744073709551615 kB\n");
  CHECK(absl::IsInvalidArgument(ParseRollup(text).status()));
  CHECK(ParseRollup("Rss: 4 kB\n").ok());
}

TEST_CASE("maps as the kernel writes it") {
  const auto maps = ParseMaps(
      "561dcf000000-561dcf009000 r-xp 00002000 fe:00 1234                       /usr/bin/a b\n"
      "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
      "7f0000100000-7f0000200000 rw-s 00001000 00:17 99                         "
      "/dev/shm/torch_12 (deleted)\n"
      "7ffd5a1f0000-7ffd5a211000 rw-p 00000000 00:00 0                          [stack]\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n");
  REQUIRE(maps.size() == 5);
  CHECK(maps[0].begin == 0x561dcf000000);
  CHECK(maps[0].end == 0x561dcf009000);
  CHECK(maps[0].readable);
  CHECK_FALSE(maps[0].writable);
  CHECK(maps[0].executable);
  CHECK_FALSE(maps[0].shared);
  CHECK(maps[0].offset == 0x2000);
  CHECK(maps[0].inode == 1234);
  CHECK(maps[0].name == "/usr/bin/a b");
  CHECK(maps[1].writable);
  CHECK(maps[1].name.empty());
  CHECK(maps[2].shared);
  CHECK(maps[2].name == "/dev/shm/torch_12 (deleted)");
  CHECK(maps[3].name == "[stack]");
  CHECK(maps[4].end == 0xffffffffff601000);
}

TEST_CASE("maps: malformed lines are skipped, their neighbours kept") {
  const std::string bad =
      GENERATE(as<std::string>(), "", "rubbish", "1000-", "-2000 rw-p 0 0:0 0", "2000-1000 rw-p 0 0:0 0",
               "1000-1000 rw-p 0 0:0 0", "1000-2000 rw 0 0:0 0", "1000-2000 rw-p 0 00 0", "1000-2000 rw-p 0 0:0",
               "1000-2000 rw-p 0 0:0 x", "1000-2000 rw-p -1 0:0 0", "10000000000000000-20000000000000000 rw-p 0 0:0 0",
               "0x1000-0x2000 rw-p 0 0:0 0", "1000-2000 rw-p 0 0:0 18446744073709551616", std::string(9, '\0'),
               std::string(1 << 20, '7'));
  const std::string good = "3000-4000 rw-p 00000000 00:00 0";
  const auto maps = ParseMaps(absl::StrCat(good, "\n", bad, "\n", good, " [heap]"));
  REQUIRE(maps.size() == 2);
  CHECK(maps[0].name.empty());
  CHECK(maps[1].name == "[heap]");
}

TEST_CASE("maps: a name of 1 MB is kept completely") {
  const std::string name(1 << 20, 'n');
  const auto maps = ParseMaps("1000-2000 rw-p 0 0:0 0 " + name);
  REQUIRE(maps.size() == 1);
  CHECK(maps[0].name == name);
}

TEST_CASE("command lines") {
  using std::string;
  CHECK(JoinCommandLine(string("python\0-c\0print(1)\0", 19)) == "python -c print(1)");
  CHECK(JoinCommandLine("renamed itself: no NUL") == "renamed itself: no NUL");
  CHECK(JoinCommandLine(string("renamed\0\0\0\0", 11)) == "renamed");
  CHECK(JoinCommandLine(string("a\0\0b\0", 5)) == "a  b");
  CHECK(JoinCommandLine(string("\0\0", 2)).empty());
  CHECK(JoinCommandLine("").empty());
  CHECK(JoinCommandLine(string(1 << 20, 'x')).size() == kMaxCommandBytes);
  CHECK(JoinCommandLine(string("\x1b[31m\xff\n\0", 8)) == "\x1b[31m\xff\n");
}

TEST_CASE("soft limits") {
  CHECK(ParseSoftLimit(kLimits, "Max open files") == 20000);
  CHECK(ParseSoftLimit(kLimits, "Max stack size") == 8388608);
  CHECK(ParseSoftLimit(kLimits, "Max nice priority") == 0);
  CHECK_FALSE(ParseSoftLimit(kLimits, "Max address space"));  // unlimited
  CHECK_FALSE(ParseSoftLimit(kLimits, "Max open"));           // part of a name
  CHECK_FALSE(ParseSoftLimit(kLimits, "Max nothing"));
  CHECK_FALSE(ParseSoftLimit(kLimits, "Max open files            2"));  // not the digits after it
  CHECK_FALSE(ParseSoftLimit(kLimits, ""));
  CHECK_FALSE(ParseSoftLimit("", "Max open files"));
  CHECK_FALSE(ParseSoftLimit("Max open files", "Max open files"));
  CHECK_FALSE(ParseSoftLimit("Max open files   -1   -1", "Max open files"));
  CHECK_FALSE(ParseSoftLimit("Max open files   18446744073709551616 ", "Max open files"));
}

TEST_CASE("host memory") {
  const HostMemory host = ParseHostMemory(
      "MemTotal:       24684092 kB\nMemFree:        20000000 kB\nMemAvailable:   22000000 kB\n"
      "SwapCached:            0 kB\nSwapTotal:       1048576 kB\nSwapFree:         524288 kB\n"
      "HugePages_Total:       0\n");
  CHECK(host.total_bytes == uint64_t{24684092} * 1024);
  CHECK(host.available_bytes == uint64_t{22000000} * 1024);
  CHECK(host.swap_total_bytes == uint64_t{1} << 30);
  CHECK(host.swap_free_bytes == uint64_t{1} << 29);
  CHECK_FALSE(ParseHostMemory("MemTotal: 4\nMemAvailable: kB\n").total_bytes);
}

TEST_CASE("figures from a folder that poses as /proc") {
  FixtureTree tree;
  tree.Write("/12/stat", kStat);
  tree.Write("/12/status", kStatus);
  for (int fd = 0; fd < 7; ++fd) tree.Write(absl::StrCat("/12/fd/", fd), "");
  const ProcFs proc(tree.root());
  const ProcessId id{12, uint64_t{164295} * 10'000'000 + 9'999'999};

  const auto figures = proc.ReadFigures(id, 4096);
  REQUIRE(figures.ok());
  CHECK(figures->anon_pages == 28);
  CHECK(figures->file_pages == 399);
  CHECK(figures->shmem_pages == 0);
  CHECK(figures->swap_pages == 16);
  CHECK(figures->virtual_pages == 765);
  CHECK(figures->cpu_ms == 120);
  CHECK(figures->threads == 1);
  CHECK(figures->descriptors == 7);  // counted: the size of an ordinary folder means nothing
  CHECK(proc.CountDescriptors(12).value_or(0) == 7);

  SECTION("the pid was reused") {
    CHECK(absl::IsNotFound(proc.ReadFigures({12, uint64_t{164296} * 10'000'000}, 4096).status()));
  }
  SECTION("another page size") { CHECK(proc.ReadFigures(id, 65536)->file_pages == 24); }
  SECTION("no fd folder: the other figures remain") {
    std::filesystem::remove_all(tree.root() + "/12/fd");
    const auto rest = proc.ReadFigures(id, 4096);
    REQUIRE(rest.ok());
    CHECK_FALSE(rest->descriptors);
    CHECK(rest->anon_pages == 28);
    CHECK(absl::IsNotFound(proc.CountDescriptors(12).status()));
  }
  SECTION("the process ended between two reads") {
    std::filesystem::remove(tree.root() + "/12/status");
    CHECK(absl::IsNotFound(proc.ReadFigures(id, 4096).status()));
  }
  SECTION("an empty stat is a failure, not zeros") {
    tree.Write("/12/stat", "");
    CHECK(absl::IsInvalidArgument(proc.ReadFigures(id, 4096).status()));
  }
}

TEST_CASE("pids are listed in order, and nothing else is") {
  FixtureTree tree;
  for (const char* name : {"12", "7", "100", "self", "1a", "-3", "0", "99999999999", "sys"}) {
    tree.Write(absl::StrCat("/", name, "/stat"), "");
  }
  CHECK(ProcFs(tree.root()).ListPids() == std::vector<pid_t>{7, 12, 100});
  CHECK(ProcFs(tree.root() + "/nowhere").ListPids().empty());
}

TEST_CASE("files of any size are read completely") {
  FixtureTree tree;
  const size_t size = GENERATE(size_t{0}, 1, 4095, 4096, 4097, 8192, 1 << 20, 40'000'000);
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  tree.Write("/12/maps", text);
  const auto read = ProcFs(tree.root()).ReadFile(12, "maps");
  REQUIRE(read.ok());
  CHECK(*read == text);  // on failure this prints megabytes
}

TEST_CASE("mappings of a process without memory, of which the kernel shows an empty file, are not found") {
  FixtureTree tree;
  tree.Write("/12/maps", "");
  CHECK(absl::IsNotFound(ProcFs(tree.root()).ReadMaps(12).status()));
  tree.Write("/12/maps", "1000-2000 rw-p 00000000 00:00 0\n");
  CHECK(ProcFs(tree.root()).ReadMaps(12)->size() == 1);
}

TEST_CASE("failures say what, on what and why") {
  FixtureTree tree;
  const auto gone = ReadSmallFile(tree.root() + "/12/stat");
  CHECK(absl::IsNotFound(gone.status()));
  CHECK(absl::StrContains(gone.status().message(), "open " + tree.root() + "/12/stat: No such"));

  tree.Write("/12/stat", kStat);
  std::filesystem::permissions(tree.root() + "/12/stat", std::filesystem::perms::none);
  const uid_t uid = geteuid();
  if (uid == 0) REQUIRE(seteuid(65534) == 0);  // root reads everything
  const auto forbidden = ReadSmallFile(tree.root() + "/12/stat");
  if (uid == 0) REQUIRE(seteuid(uid) == 0);
  CHECK(absl::IsPermissionDenied(forbidden.status()));
  CHECK(absl::StrContains(forbidden.status().message(), "run cowprof as root"));

  CHECK_FALSE(ReadSmallFile(tree.root()).ok());  // a folder
}

TEST_CASE("procfs: of a file that the target makes endless only the head is read") {
  const FixtureTree tree;
  tree.Write("/12/cmdline", std::string("python\0train.py\0", 16));
  tree.Write("/13/cmdline", "python -m train " + std::string(1 << 20, 'x'));
  tree.Link("/14/environ", "/dev/zero");
  const ProcFs proc(tree.root());
  CHECK(proc.ReadCommandLine(12) == "python train.py");
  CHECK(proc.ReadCommandLine(13).size() == kMaxCommandBytes);
  CHECK(proc.ReadHead(12, "cmdline", 6) == "python");
  CHECK(proc.ReadHead(14, "environ", 100'000).size() == 100'000);
  CHECK(proc.ReadHead(15, "environ", 100).empty());
}

}  // namespace cowprof
