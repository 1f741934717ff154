#include "model/judge/native_code.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "builders.h"
#include "judged.h"

namespace cowprof {
namespace {

constexpr uint64_t kCopies = 25'600;  // 100 MiB

// A worker of a program without Python, and the sites of what it copied. `each`: copies that a sample stands for.
Run Native(Cause cause, const std::vector<std::pair<CopySite, uint64_t>>& sites, uint64_t each = 1) {
  ProcessSample row = {.index = 1, .causes = CauseCounts{}};
  (*row.causes)[static_cast<int>(cause)] = kCopies;
  row.counts = {.write_protect_faults = kCopies, .copies = kCopies, .zero_upgrades = 0};
  Run run;
  Append({.events = {Started(0, -1, "program"), Started(1, 0, "program")}, .processes = {row}}, &run);
  run.model.processes[0].framework = Framework::kNative;
  for (const auto& [site, copies] : sites) {
    const int number = static_cast<int>(run.model.copy_sites.size());
    run.model.copy_sites.push_back(site);
    run.model.processes[1].copy_sites[number] = {1, number, copies, copies / each, copies * each};
  }
  return run;
}
CopySite Data(const std::string& module, const std::string& symbol) {
  return {.cause = Cause::kData, .type = "", .module = module, .symbol = symbol, .frames = {}};
}
// What follows the bytes in the first sentence.
std::string Where(const Run& run) {
  const std::string sentence = HeadlineOf(run);
  const size_t at = sentence.find(" in 1 worker");
  REQUIRE(at != std::string::npos);
  return sentence.substr(at + strlen(" in 1 worker"));
}

}  // namespace

TEST_CASE("native code: what made most of the copies is in the first sentence") {
  CHECK(Where(Native(Cause::kData, {{Data("table", "fill"), kCopies}})) == "; 100 % of it in fill (table).");
  CHECK(Where(Native(Cause::kData, {{Data("table", ""), kCopies}})) == "; 100 % of it in table.");
  CHECK(Where(Native(Cause::kData, {{Data("table", "fill"), kCopies}}, 100)) == "; about 100 % of it in fill (table).");
  // Functions of one module count together; none of them made half.
  CHECK(Where(Native(Cause::kData,
                     {{Data("libt.so", "a"), 9000}, {Data("libt.so", "b"), 9000}, {Data("x", "c"), 7600}})) ==
        "; 70 % of it in libt.so.");
}

TEST_CASE("native code: nothing is said where none made half, or the C library did") {
  CHECK(Where(Native(Cause::kData, {})) == ".");
  CHECK(Where(Native(Cause::kData, {{Data("", ""), kCopies}})) == ".");
  CHECK(Where(Native(Cause::kData, {{Data("a", "f"), 9000}, {Data("b", "g"), 8600}, {Data("c", "h"), 8000}})) == ".");
  CHECK(Where(Native(Cause::kData, {{Data("libc.so.6", "memcpy"), kCopies}})) == ".");
  CHECK(Where(Native(Cause::kData, {{Data("ld-musl-x86_64.so.1", "memcpy"), kCopies}})) == ".");
}

TEST_CASE("native code: beside Python, only what a known runtime wrote is told, and no sketch in Python") {
  Run perl = Native(Cause::kData, {{Data("libperl.so.5.36", "Perl_sv_upgrade"), kCopies}});
  Run other = Native(Cause::kData, {{Data("libnative.so", "fill"), kCopies}});
  perl.model.processes[0].framework.reset();
  other.model.processes[0].framework.reset();
  CHECK(Where(perl) == "; 100 % of it in Perl's own code (Perl_sv_upgrade).");
  CHECK(DiagnosesOf(perl)[0].sketch.empty());
  CHECK(!absl::StrContains(TextOf(DiagnosesOf(perl)[0]), "torch"));
  CHECK(Where(other) == ".");
  CHECK(DiagnosesOf(other)[0].sketch.empty());
  CHECK(absl::c_linear_search(DiagnosesOf(other)[0].evidence, "100 % of it in fill (libnative.so)"));
  // An array is what the sketch is of; the interpreter sorts lists as well.
  other.model.copy_sites[0].module = "_multiarray_umath.cpython-311-x86_64-linux-gnu.so";
  CHECK(!DiagnosesOf(other)[0].sketch.empty());
  other.model.copy_sites[0].module = "python3.11";
  CHECK(DiagnosesOf(other)[0].sketch.empty());
  CHECK(!absl::StrContains(TextOf(DiagnosesOf(other)[0]), "python3.11"));
}

TEST_CASE("native code: a runtime is told by the file that is mapped") {
  const auto name = [](const char* module) {
    const std::string text = NativeCodeText({module, "", 1}, false);
    const size_t end = text.find("'s own code");
    return end == std::string::npos ? "" : text.substr(strlen("100 % of it in "), end - strlen("100 % of it in "));
  };
  for (const char* module : {"perl", "perl5.36.0", "libperl.so.5.36"}) CHECK(name(module) == "Perl");
  for (const char* module : {"R", "libR.so"}) CHECK(name(module) == "R");
  for (const char* module : {"php8.2", "php-fpm8.2", "libphp.so", "libphp8.2.so"}) CHECK(name(module) == "PHP");
  for (const char* module : {"pypy3", "libpypy3.9-c.so", "libpypy3-c.so"}) CHECK(name(module) == "PyPy");
  for (const char* module : {"ruby", "ruby3.1", "libruby-3.1.so.3.1.2"}) CHECK(name(module) == "Ruby");
  for (const char* module : {"libsqlite3.so.0.8.6", "_sqlite3.cpython-311-x86_64-linux-gnu.so"})
    CHECK(name(module) == "SQLite");
  for (const char* module :
       {"perldoc-server", "Rserve", "libRblas.so", "phpx", "redis-server", "ruby_loader", "", "*"}) {
    INFO(module);
    CHECK(name(module).empty());
    CHECK(AdviceOn({module, "", 1}).empty());
  }
}

TEST_CASE("native code: the advice is of the function that wrote, or all, and none of it claims a saving") {
  const auto found = [](const char* module, const char* symbol) {
    return DiagnosesOf(
        Native(Cause::kData, {{Data(module, symbol), kCopies * 3 / 4}, {Data("libc.so.6", ""), kCopies / 4}}))[0];
  };
  const Diagnosis number = found("perl", "Perl_sv_upgrade");
  CHECK(number.id == "cow-data");
  REQUIRE(number.advice.size() == 2);
  CHECK(absl::StartsWith(number.advice[0], "Perl keeps the number"));
  CHECK(absl::StartsWith(number.advice[1], "If the program itself writes, and one result serves all workers"));
  CHECK(absl::StartsWith(found("perl", "Perl_sv_clear").advice[0], "A worker that ends with exit"));
  for (const char* symbol : {"Perl_pp_iter", "Perl_sv_setsv_cow", "Perl_sv_setsv_flags"})
    CHECK(absl::StartsWith(found("perl", symbol).advice[0], "Perl counts references"));
  // Another function, or none with half: all that is known. The program's own writes are among the first three.
  REQUIRE(found("perl", "").advice.size() == 4);
  CHECK(absl::StartsWith(found("perl", "Perl_other").advice[2], "If the program itself writes"));
  CHECK(absl::StartsWith(found("php8.2", "zend_gc_collect_cycles").advice[0], "PHP's collector of cycles"));
  const Diagnosis other = found("table", "fill");
  CHECK(absl::StartsWith(other.advice[0], "If one result serves all workers"));
  CHECK(absl::StartsWith(other.advice[2], "If the writes are a runtime's own"));
  CHECK(!number.saves);
  CHECK(!other.saves);
}

TEST_CASE("native code: of a parent that copies itself, what made most of its copies is told") {
  Run run = Native(Cause::kData, {});
  ProcessModel& parent = run.model.processes[0];
  parent.causes = run.model.processes[1].causes;
  parent.counts = run.model.processes[1].counts;
  run.model.processes[1].causes = CauseCounts{};
  run.model.processes[1].counts.copies = 0;
  run.model.copy_sites = {Data("redis-server", "dictSetVal")};
  parent.copy_sites[0] = {0, 0, kCopies, kCopies / 100, kCopies * 100};
  CHECK(DiagnosesOf(run)[0].id == "parent-unshare");
  CHECK(absl::EndsWith(HeadlineOf(run), "; about 100 % of it in dictSetVal (redis-server)."));
  CHECK(absl::StrContains(DiagnosesOf(run)[0].advice[0], "vm.overcommit_memory=1"));
}

TEST_CASE("native code: names are made printable and cut") {
  const std::string text = NativeCodeText({"lib\x1b[2J.so", std::string(500, 'x'), 0.7}, true);
  CHECK(!absl::StrContains(text, "\x1b"));
  CHECK(text.size() < 200);
  CHECK(absl::StartsWith(text, "about 70 % of it in xxx"));
}

}  // namespace cowprof
