#include "model/judge/native_code.h"

#include <array>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

constexpr double kMost = 0.5;
constexpr size_t kMostSymbol = 80;  // bytes of it in one sentence

bool IsNamed(absl::string_view module, absl::string_view pattern) {
  return absl::ConsumeSuffix(&pattern, "*") ? absl::StartsWith(module, pattern) : module == pattern;
}

bool IsCLibrary(absl::string_view module) {
  return absl::StartsWith(module, "libc.so") || absl::StartsWith(module, "libc-") ||
         absl::StartsWith(module, "ld-musl");
}

// `of`: the functions that write so; none: any.
struct Advice {
  const char* text;
  std::array<const char*, 3> of = {};
};

struct Runtime {
  const char* name;
  std::array<const char*, 7> modules;  // names of files; one that ends with * is a prefix; nullptr: no more
  std::array<Advice, 3> advice;        // no text: no more
};

constexpr Runtime kRuntimes[] = {
    {.name = "Perl",
     .modules = {"perl", "perl5*", "libperl.so*"},
     .advice =
         {{{"Perl keeps the number in a string that is used as one, and the string in a number that is printed. Let the "
            "parent use such values once as the workers will, before the fork.",
            {"Perl_sv_upgrade"}},
           {"A worker that ends with exit, or at the end of the script, frees what it inherited value by value, and "
            "so copies it. POSIX::_exit(0) does not, but it runs no END block and writes out no buffer.",
            {"Perl_sv_clear"}},
           {"Perl counts references: a loop over values, a copy of a string and a match write to what they read, and doing "
            "so before the fork saves nothing. Keep what all workers read in few long strings, and take parts of "
            "them with substr.",
            {"Perl_pp_iter", "Perl_sv_setsv_cow", "Perl_sv_setsv_flags"}}}}},
    {.name = "R",
     .modules = {"R", "libR.so"},
     .advice =
         {{{"R's garbage collector marks each object in its header: a full collection in a worker copies the pages of "
            "all objects, read or not, and gc() before the fork changes nothing. Keep the data in few long vectors "
            "of numbers, which have one header each; each string is an object of its own."},
           {"Or start workers that share nothing, and send each its part: parallel::makeCluster, clusterApply."},
           {"Until then, use fewer workers (mc.cores): each can copy all of it."}}}},
    {.name = "PHP",
     .modules = {"php", "php5*", "php7*", "php8*", "php-fpm*", "php-cgi*", "libphp*"},
     .advice =
         {{{"PHP counts references in each array, object and string that the program made: reading one into a variable "
            "writes its count. Keep the data in few large values, such as one long string with an array of offsets, "
            "and arrays of numbers."},
           {"PHP's collector of cycles writes to what it goes through: call gc_disable() in workers that create few "
            "cycles.",
            {"zend_gc_collect_cycles"}}}}},
    {.name = "PyPy",
     .modules = {"pypy*", "libpypy*"},
     .advice =
         {{{"PyPy marks each object that a major collection visits, in its header: call gc.collect() in the parent "
            "right before the fork, and gc.disable() in workers that create few cycles or end soon. PyPy then runs "
            "no major collection there, and frees only what dies young."}}}},
    // https://www.sqlite.org/howtocorrupt.html, "Carrying an open database connection across a fork".
    {.name = "SQLite",
     .modules = {"libsqlite3.so*", "_sqlite3.*"},
     .advice =
         {{{"SQLite writes to the pages of a database in memory as it reads them, and no connection may be carried "
            "across a fork. Let each worker open the database from a file: what they read is then shared, in the "
            "kernel's page cache."}}}},
    {.name = "Ruby",
     .modules = {"ruby", "ruby2*", "ruby3*", "libruby*"},
     .advice =
         {{{"Ruby's garbage collector writes to objects as they grow old: let it do so in the parent, before the fork, "
            "with Process.warmup, or with GC.start four times in versions before 3.3. Strings that are copied or cut "
            "are written to each time; this does not prevent that."}}}},
};

// Of a file that is mapped; nullptr: of none that is known.
const Runtime* RuntimeOf(absl::string_view module) {
  for (const Runtime& runtime : kRuntimes) {
    for (const char* const pattern : runtime.modules) {
      if (pattern != nullptr && IsNamed(module, pattern)) return &runtime;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<NativeCode> NativeCodeOf(const RunModel& model, const Blame& blame,
                                       absl::FunctionRef<bool(const CopySite&)> counts) {
  std::map<std::string, uint64_t> modules;
  std::map<std::pair<std::string, std::string>, uint64_t> symbols;
  uint64_t known = 0;
  for (const CopySiteShare& share : blame.copy_sites) {
    const CopySite& site = model.copy_sites[share.copy_site];
    if (!counts(site)) continue;
    known += share.copies;
    if (site.module.empty()) continue;
    modules[site.module] += share.copies;
    if (!site.symbol.empty()) symbols[{site.module, site.symbol}] += share.copies;
  }
  for (const auto& [module, copies] : modules) {
    if (copies < kMost * known || copies == 0 || IsCLibrary(module)) continue;
    NativeCode code = {.module = module, .share = static_cast<double>(copies) / known};
    for (const auto& [name, of_symbol] : symbols) {
      if (name.first == module && of_symbol >= kMost * known) code.symbol = name.second;
    }
    return code;
  }
  return std::nullopt;
}

std::vector<std::string> AdviceOn(const NativeCode& code) {
  std::vector<std::string> of_symbol, all;
  const Runtime* const runtime = RuntimeOf(code.module);
  if (runtime == nullptr) return all;
  for (const Advice& advice : runtime->advice) {
    if (advice.text == nullptr) continue;
    all.push_back(advice.text);
    for (const char* const symbol : advice.of) {
      if (symbol != nullptr && code.symbol == symbol) of_symbol.push_back(advice.text);
    }
  }
  return of_symbol.empty() ? all : of_symbol;
}

bool IsPython(const NativeCode& code) {
  return absl::StartsWith(code.module, "python") || absl::StartsWith(code.module, "libpython");
}

bool WritesArrays(const NativeCode& code) {
  constexpr absl::string_view kModules[] = {"_multiarray_umath.", "libtorch", "libopenblas", "libmkl_"};
  return absl::c_any_of(kModules, [&](absl::string_view module) { return absl::StartsWith(code.module, module); });
}

std::string NativeCodeText(const NativeCode& code, bool estimated) {
  const Runtime* const runtime = RuntimeOf(code.module);
  const std::string module = Printable(code.module), symbol = Printable(code.symbol, kMostSymbol);
  const std::string where = runtime != nullptr
                                ? absl::StrCat(runtime->name, "'s own code (", symbol.empty() ? module : symbol, ")")
                            : symbol.empty() ? module
                                             : absl::StrCat(symbol, " (", module, ")");
  return absl::StrCat(estimated ? "about " : "", Percent(code.share), " of it in ", where);
}

}  // namespace cowprof
