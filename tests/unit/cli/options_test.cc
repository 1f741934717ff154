// A table of command lines and the result of each: the options, or one line with an exit status. Covers both spellings
// of a value, flags before and after operands, and typical mistakes.
#include "cli/options.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"

namespace cowprof {
namespace {

using Words = std::vector<std::string>;

ParsedOptions ParseWords(const Words& words) {
  std::vector<const char*> argv = {"cowprof"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return ParseOptions(argv.size(), argv.data());
}

struct Accepted {
  Words words;
  std::function<bool(const Options&)> holds;
};
struct Refused {
  Words words;
  std::string says;  // part of the message
};

}  // namespace

TEST_CASE("command lines that are accepted") {
  const std::vector<Accepted> table = {
      {{"--attach", "7"}, [](auto& o) { return o.command == "record" && o.attach == 7 && o.program.empty(); }},
      {{"--attach=7"}, [](auto& o) { return o.attach == 7; }},
      {{"--attach=7"},
       [](auto& o) { return o.interval == absl::Seconds(1) && o.duration == absl::InfiniteDuration(); }},
      {{"--attach=7"}, [](auto& o) { return !o.quiet && !o.live && !o.json && o.output.empty() && o.without.empty(); }},
      {{"--attach", "7", "--output", "a b"}, [](auto& o) { return o.output == "a b"; }},
      {{"--attach", "7", "--output=x=y"}, [](auto& o) { return o.output == "x=y"; }},
      {{"-o", "f", "--attach", "7"}, [](auto& o) { return o.output == "f" && o.attach == 7; }},
      {{"-of", "--attach", "7"}, [](auto& o) { return o.output == "f"; }},
      {{"--attach", "7", "--duration", "30s"}, [](auto& o) { return o.duration == absl::Seconds(30); }},
      {{"--attach", "7", "--duration=30"}, [](auto& o) { return o.duration == absl::Seconds(30); }},
      {{"--attach", "7", "--duration=1h30m"}, [](auto& o) { return o.duration == absl::Minutes(90); }},
      {{"--attach", "7", "--duration", "0.5"}, [](auto& o) { return o.duration == absl::Milliseconds(500); }},
      {{"--interval", "250ms", "--attach", "7"}, [](auto& o) { return o.interval == absl::Milliseconds(250); }},
      {{"--interval=10ms", "--attach", "7"}, [](auto& o) { return o.interval == absl::Milliseconds(10); }},
      {{"--interval=2m", "--attach", "7"}, [](auto& o) { return o.interval == absl::Minutes(2); }},
      {{"--quiet", "--attach", "7"}, [](auto& o) { return o.quiet; }},
      {{"--attach", "7", "-q"}, [](auto& o) { return o.quiet; }},
      {{"--attach", "7", "--live"}, [](auto& o) { return o.live && !o.quiet; }},
      {{"--attach", "7", "--without", "fentry"}, [](auto& o) { return o.without == Words{"fentry"}; }},
      {{"--without=a", "--attach", "7", "--without", "b"},
       [](auto& o) {
         return o.without == Words{"a", "b"};
       }},
      {{"--", "true"}, [](auto& o) { return o.command == "record" && o.program == Words{"true"} && o.attach == 0; }},
      {{"--", "python3", "t.py", "--attach", "7", "--help", "-q"},
       [](auto& o) { return o.program.size() == 6 && o.attach == 0 && !o.quiet; }},
      {{"--", "sh", "--", "-c", "x"},
       [](auto& o) {
         return o.program == Words{"sh", "--", "-c", "x"};
       }},
      {{"-q", "--interval", "50ms", "--", "a", "--interval", "1ns"},
       [](auto& o) { return o.quiet && o.interval == absl::Milliseconds(50) && o.program.size() == 3; }},
      {{"--", "report"}, [](auto& o) { return o.command == "record" && o.program == Words{"report"}; }},
      {{"--", ""}, [](auto& o) { return o.program == Words{""}; }},
      {{"--", "--version"}, [](auto& o) { return o.program == Words{"--version"}; }},
      {{"report", "t.json"},
       [](auto& o) { return o.command == "report" && o.timelines == Words{"t.json"} && !o.json; }},
      {{"report", "t.json", "--json"}, [](auto& o) { return o.json && o.timelines == Words{"t.json"}; }},
      {{"report", "--json", "t.json"}, [](auto& o) { return o.json && o.timelines == Words{"t.json"}; }},
      {{"report", "a b.json"}, [](auto& o) { return o.timelines == Words{"a b.json"}; }},
      {{"report", "a", "b", "--json"},
       [](auto& o) {
         return o.timelines == Words{"a", "b"} && o.json;
       }},
      {{"report", "report"}, [](auto& o) { return o.timelines == Words{"report"}; }},
      {{"view", "t.json"}, [](auto& o) { return o.command == "view" && o.output.empty(); }},
      {{"view", "t.json", "-o", "p.html"},
       [](auto& o) { return o.output == "p.html" && o.timelines == Words{"t.json"}; }},
      {{"view", "-o", "p.html", "t.json"},
       [](auto& o) { return o.output == "p.html" && o.timelines == Words{"t.json"}; }},
      {{"view", "a.json", "b.json"},
       [](auto& o) {
         return o.timelines == Words{"a.json", "b.json"} && o.view_as == ViewAs::kByContent;
       }},
      {{"view", "a.json", "-o", "p.html", "b.json"},
       [](auto& o) {
         return o.timelines == Words{"a.json", "b.json"} && o.output == "p.html";
       }},
      {{"view", "a", "b", "c"}, [](auto& o) { return o.timelines.size() == 3; }},
      {{"view", "a", "--as", "job"}, [](auto& o) { return o.view_as == ViewAs::kJob; }},
      {{"view", "a", "b", "--as=compare"}, [](auto& o) { return o.view_as == ViewAs::kCompare; }},
      {{"view", "t.json", "-o", "-"}, [](auto& o) { return o.output == "-"; }},
      {{"export", "csv", "t.json", "-o", "-"}, [](auto& o) { return o.output == "-"; }},
      {{"view", "--output=p.html", "t.json"}, [](auto& o) { return o.output == "p.html"; }},
      {{"doctor"}, [](auto& o) { return o.command == "doctor" && o.pid == 0 && !o.json; }},
      {{"doctor", "12"}, [](auto& o) { return o.pid == 12; }},
      {{"doctor", "--without=fentry", "--without", "copies"},
       [](auto& o) {
         return o.without == Words{"fentry", "copies"};
       }},
      {{"doctor", "--json", "12"}, [](auto& o) { return o.pid == 12 && o.json; }},
      {{"doctor", "12", "--json"}, [](auto& o) { return o.pid == 12 && o.json; }},
      {{"--color=never", "--attach", "7"}, [](auto& o) { return o.colour == Colour::kNever; }},
      {{"report", "t.json", "--color", "always"}, [](auto& o) { return o.colour == Colour::kAlways; }},
      {{"prove", "--fix=a", "--interval=200ms", "--without", "stacks", "--every-copy", "--label=x=y", "--", "b",
        "--verify"},
       [](auto& o) {
         return o.interval == absl::Milliseconds(200) && o.without == Words{"stacks"} && o.every_copy && !o.verify &&
                o.labels.at("x") == "y" && o.program == Words{"b", "--verify"};
       }},
      {{"--interval=200ms", "prove", "--fix=a", "--", "b"},
       [](auto& o) { return o.command == "prove" && o.interval == absl::Milliseconds(200); }},
      // Flags may stand before the command.
      {{"--on-alert", "x", "--without=stacks", "--label", "a=b", "-q", "watch", "-d", "rec", "--label=c=d"},
       [](auto& o) {
         return o.command == "watch" && o.watch.folder == "rec" && o.watch.has_hook && o.watch.quiet &&
                o.watch.recording == Words{"--without=stacks", "--label=a=b", "--label=c=d", "--on-alert=x"};
       }},
      {{"--json", "report", "t.json"}, [](auto& o) { return o.json && o.timelines == Words{"t.json"}; }},
      {{"-qo", "report", "--attach", "7"},
       [](auto& o) { return o.command == "record" && o.quiet && o.output == "report"; }},
      {{"-o", "p.html", "--as=job", "view", "a", "b"},
       [](auto& o) { return o.output == "p.html" && o.view_as == ViewAs::kJob && o.timelines.size() == 2; }},
      {{"--max-copied", "1MiB", "check", "t.json"},
       [](auto& o) { return o.compare.budget.bounds.size() == 1 && o.timeline == "t.json"; }},
      {{"--color=never", "view", "t.json"}, [](auto& o) { return o.colour == Colour::kNever; }},
      {{"--duration=1h", "prove", "--fix=a", "--", "b"},
       [](auto& o) { return o.command == "prove" && o.duration == absl::Hours(1); }},
      {{"--serve", "8080", "--attach", "7"}, [](auto& o) { return o.serve->port == 8080 && o.attach == 7; }},
      {{"check", "--no-diagnosis", "clean,oom-host", "t.json", "--no-diagnosis=shm-full"},
       [](auto& o) { return o.compare.budget.forbidden.size() == 3 && o.timeline == "t.json"; }},
      {{"diff", "--json", "a1", "a2", "--", "b1", "b2"},
       [](auto& o) {
         return o.compare.format == OutputFormat::kJson && o.compare.a.size() == 2 && o.compare.b == Words{"b1", "b2"};
       }},
      {{"completions", "zsh"}, [](auto& o) { return o.command == "completions" && o.shell == "zsh"; }},
  };
  for (const Accepted& row : table) {
    const ParsedOptions parsed = ParseWords(row.words);
    INFO("cowprof " << absl::StrJoin(row.words, " ") << "\n" << parsed.message);
    REQUIRE_FALSE(parsed.exit_now);
    CHECK(parsed.message.empty());
    CHECK(row.holds(parsed.options));
  }
}

TEST_CASE("command lines that are refused, in one line with exit status 2") {
  const std::vector<Refused> table = {
      {{}, "nothing to profile"},
      {{"-q"}, "nothing to profile"},
      {{"--"}, "nothing to start"},
      {{"--attach", "7", "--"}, "nothing to start"},
      {{"--attach", "7", "--", "true"}, "mutually exclusive"},
      {{"--attach"}, "--attach"},
      {{"--attach="}, "--attach"},
      {{"--attach", "x"}, "'x' is not a process id"},
      {{"--attach=0"}, "'0' is not a process id"},
      {{"--attach=-7"}, "'-7' is not a process id"},
      {{"--attach", "-7"}, "--attach"},
      {{"--attach=7.5"}, "not a process id"},
      {{"--attach=99999999999"}, "not a process id"},
      {{"--attach=7x"}, "not a process id"},
      {{"--attach", "7", "8"}, "8"},
      {{"--attach", "7", "--attach", "8"}, "--attach"},
      {{"--attach", "7", "--interval", "0"}, "not a duration"},
      {{"--attach", "7", "--interval=-1s"}, "not a duration"},
      {{"--attach", "7", "--interval", "soon"}, "'soon' is not a duration"},
      {{"--attach", "7", "--interval", "5ms"}, "10ms"},
      {{"--attach", "7", "--interval="}, "--interval"},
      {{"--attach", "7", "--interval", "nan"}, "'nan' is not a duration"},
      {{"--attach", "7", "--interval", "inf"}, "'inf' is not a duration"},
      {{"--attach", "7", "--interval", "1e300"}, "not a duration"},
      {{"--attach", "7", "--duration", "nan"}, "not a duration"},
      {{"--attach", "7", "--duration", "10 s"}, "not a duration"},
      {{"--attach", "7", "--duration", "10parsecs"}, "not a duration"},
      {{"--attach", "7", "--duration"}, "--duration"},
      {{"--attach", "7", "--output"}, "--output"},
      {{"--attach", "7", "--output", "-"}, "only view and export"},
      {{"demo", "-o", "-"}, "only view and export"},
      {{"prove", "--fix", "a", "-o", "-", "--", "b"}, "only view and export"},
      {{"--attach", "7", "--without"}, "--without"},
      {{"--attach", "7", "--frobnicate"}, "--frobnicate"},
      {{"--attach", "7", "-z"}, "-z"},
      {{"--attach", "7", "--json"}, "--json"},
      {{"train.py"}, "train.py"},
      {{"python3", "train.py"}, "python3"},
      {{"report"}, "TIMELINE"},
      {{"report", "--json"}, "TIMELINE"},
      {{"report", "a", "--frobnicate"}, "--frobnicate"},
      {{"report", "a", "--", "true"}, "'report' takes neither --attach"},
      {{"view"}, "TIMELINE"},
      {{"view", "a", "-o"}, "--output"},
      {{"view", "a", "--json"}, "--json"},
      {{"view", "a", "--as", "fleet"}, "--as"},
      {{"view", "a", "--as", "compare"}, "takes two recordings"},
      {{"view", "a", "b", "c", "--as", "compare"}, "takes two recordings"},
      {{"doctor", "x"}, "'x' is not a process id"},
      {{"doctor", "0"}, "'0' is not a process id"},
      {{"doctor", "1", "2"}, "2"},
      {{"doctor", "--", "true"}, "'doctor' takes neither --attach"},
      {{"prove", "--fix", "a"}, "prove needs the program as it is"},
      {{"prove", "--fix", "a", "--interval=1ms", "--", "b"}, "10ms"},
      {{"prove", "--fix", "a", "--attach=7", "--", "b"}, "--attach"},
      {{"reprot", "t.json"}, "reprot"},
      {{"--attach", "7", "--color", "blue"}, "'blue' is not auto, always or never"},
      {{"diff", "a1", "a2", "--", "b1", "b2", "--format", "json"},
       "'--format' comes after '--', where only recordings may stand"},
      {{"completions"}, "SHELL"},
      {{"completions", "tcsh"}, "tcsh"},
      {{"--fail-on-alert", "report", "t.json"}, "'report' does not take --fail-on-alert"},
      {{"-q", "doctor"}, "'doctor' does not take -q"},
      {{"--duration", "1h", "watch", "-d", "rec"}, "'watch' does not take --duration"},
      {{"--attach", "7", "doctor"}, "'doctor' does not take --attach"},
      {{"--serve", "report", "t.json"}, "'report' does not take --serve"},
      {{"check", "t.json", "--budget", ""}, "--budget has an empty value"},
      {{"check", "--budget=", "t.json"}, "--budget has an empty value"},
      {{"--attach", "7", "--on-alert", ""}, "--on-alert has an empty value"},
      {{"--metrics-file=", "--attach", "7"}, "--metrics-file has an empty value"},
      {{"--attach", "7", "-o", "", "-q"}, "-o has an empty value"},
      {{"watch", "--match", ""}, "--match has an empty value"},
      {{"--attach", "a\nb"}, "not a process id"},
      {{"\n"}, ""},
      {{""}, ""},
  };
  for (const Refused& row : table) {
    const ParsedOptions parsed = ParseWords(row.words);
    INFO("cowprof " << absl::StrJoin(row.words, " ") << "\n" << parsed.message);
    REQUIRE(parsed.exit_now);
    CHECK(parsed.exit_code == kUsage);
    CHECK(absl::StartsWith(parsed.message, "cowprof: "));
    CHECK(absl::StrContains(parsed.message, row.says));
    CHECK(parsed.message.find('\n') == parsed.message.size() - 1);
  }
}

TEST_CASE("other profilers' ways to name a process are answered with the one here") {
  for (const Words& words : std::vector<Words>{{"1234"},
                                               {"attach", "1234"},
                                               {"-p", "1234"},
                                               {"-p1234"},
                                               {"--pid", "1234"},
                                               {"--pid=1234"},
                                               {"record", "-p", "1234"},
                                               {"1234", "--quiet"}}) {
    INFO(absl::StrJoin(words, " "));
    const ParsedOptions parsed = ParseWords(words);
    CHECK(parsed.exit_code == kUsage);
    CHECK(absl::StrContains(parsed.message, "did you mean: cowprof --attach 1234?"));
  }
  for (const Words& words :
       std::vector<Words>{{"attach"}, {"-p"}, {"-p", "x"}, {"report"}, {"--attach"}, {"--attach", "7", "--nope"}}) {
    INFO(absl::StrJoin(words, " "));
    CHECK_FALSE(absl::StrContains(ParseWords(words).message, "did you mean"));
  }
}

TEST_CASE("help and version come on stdout with exit status 0") {
  for (const Words& words : {Words{"--help"},
                             {"-h"},
                             {"--attach", "7", "--help"},
                             {"report", "--help"},
                             {"view", "-h"},
                             {"doctor", "--help"}}) {
    const ParsedOptions parsed = ParseWords(words);
    INFO(absl::StrJoin(words, " "));
    REQUIRE(parsed.exit_now);
    CHECK(parsed.exit_code == kDone);
    CHECK(parsed.message.size() > 100);
    CHECK(parsed.message.back() == '\n');
  }
  for (const char* flag : {"--attach", "--output", "--duration", "--interval", "--quiet", "--live", "--without",
                           "report", "view", "doctor", "--version"}) {
    INFO(flag);
    CHECK(absl::StrContains(ParseWords({"--help"}).message, flag));
  }
  CHECK(absl::StrContains(ParseWords({"report", "--help"}).message, "--json"));
  CHECK(ParseWords({"--version"}).message == "cowprof " COWPROF_VERSION "\n");
  CHECK(ParseWords({"--version"}).exit_code == kDone);
}

TEST_CASE("no arguments at all, not even a program name") {
  const ParsedOptions parsed = ParseOptions(0, nullptr);
  CHECK(parsed.exit_code == kUsage);
}

TEST_CASE("no sequence of arguments makes it throw or print more than a line") {
  const std::vector<std::string> words = {
      "--attach", "7",      "--attach=7", "-o",    "-q",  "--live", "--",  "report", "view",          "doctor",
      "t.json",   "--json", "",           "=",     "--=", "-",      "---", "++",     "--interval",    "1s",
      "x\ny",     "\xff",   "--without",  "[a,b]", "{}",  "\"",     "'",   "-qo",    "--quiet=maybe", "--no-quiet"};
  std::mt19937 random(5);
  for (int i = 0; i < 1500; ++i) {
    Words row;
    for (int n = random() % 6; n >= 0; --n) row.push_back(words[random() % words.size()]);
    const ParsedOptions parsed = ParseWords(row);
    INFO("cowprof " << absl::StrJoin(row, " ") << "\n" << parsed.message);
    REQUIRE(parsed.exit_now == !parsed.message.empty());
    if (!parsed.exit_now) continue;
    REQUIRE(parsed.exit_code == kUsage);
    REQUIRE(parsed.message.find('\n') == parsed.message.size() - 1);
  }
}

TEST_CASE("names are expanded in what the user asked to record, and not in files that a command makes for itself") {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), "cowprof");
    return ParseOptions(static_cast<int>(words.size()), words.data());
  };
  const ParsedOptions record =
      parse({"--attach", "7", "--metrics-file", "%h.prom", "--metrics-listen", "0.0.0.0:9464"});
  CHECK(record.options.expand_names);
  CHECK(record.options.metrics_file == "%h.prom");
  REQUIRE(record.options.metrics_listen);
  CHECK(record.options.metrics_listen->port == 9464);
  CHECK_FALSE(parse({"prove", "--fix", "b", "--", "a"}).options.expand_names);
  CHECK(parse({"--attach", "7", "--metrics-listen", "example.com:80"}).exit_code == kUsage);
}

}  // namespace cowprof
