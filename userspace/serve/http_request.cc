// Splits the head into lines and each line by its separators. Decodes no escapes: no path or parameter here needs one.
#include "serve/http_request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace cowprof {
namespace {

constexpr absl::string_view kEnd = "\r\n\r\n";

bool IsToken(absl::string_view text) {
  constexpr absl::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kOthers.find(c) != kOthers.npos;
  });
}

bool IsPrintable(absl::string_view text, bool spaces) {
  return std::all_of(text.begin(), text.end(),
                     [&](unsigned char c) { return (c > ' ' && c != 0x7f) || (spaces && (c == ' ' || c == '\t')); });
}

// The value of the first parameter of that name; "": none.
std::string ParameterOf(absl::string_view query, absl::string_view name) {
  for (absl::string_view parameter : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(parameter, absl::MaxSplits('=', 1));
    if (pair.first == name) return std::string(pair.second);
  }
  return "";
}

// Returns the status to refuse with, or 0.
unsigned ParseRequestLine(absl::string_view line, PageRequest* page) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !IsToken(words[0]) || words[1].empty() || !IsPrintable(words[1], /*spaces=*/false))
    return 400;
  if (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") return absl::StartsWith(words[2], "HTTP/") ? 505 : 400;
  const std::pair<absl::string_view, absl::string_view> target = absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  page->method = std::string(words[0]);
  page->path = std::string(target.first);
  page->token = ParameterOf(target.second, "token");
  return 0;
}

// False: it is not a header. Nor is an indented line, which once continued the one before.
bool ParseHeader(absl::string_view line, RequestHead* head) {
  const size_t colon = line.find(':');
  if (colon == line.npos) return false;
  const absl::string_view name = line.substr(0, colon), value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (!IsToken(name) || !IsPrintable(value, /*spaces=*/true)) return false;
  const auto is = [&](absl::string_view other) { return absl::EqualsIgnoreCase(name, other); };
  if (is("Host")) head->request.page.hosts.emplace_back(value);
  if (is("Origin")) head->request.page.origins.emplace_back(value);
  if (is("If-None-Match")) head->request.known_version = std::string(value);
  if (is("Transfer-Encoding") || (is("Content-Length") && value != "0") ||
      (is("Connection") && absl::StrContains(absl::AsciiStrToLower(value), "close")))
    head->keeps = false;
  return true;
}

}  // namespace

RequestHead ParseRequestHead(absl::string_view received) {
  RequestHead head;
  const size_t end = received.substr(0, kMaxRequestBytes).find(kEnd);
  if (end == received.npos) {
    if (received.size() >= kMaxRequestBytes) head.refusal = 431;
    return head;
  }
  head.bytes = end + kEnd.size();
  const std::vector<absl::string_view> lines = absl::StrSplit(received.substr(0, end), "\r\n");
  head.keeps = absl::EndsWith(lines[0], " HTTP/1.1");
  head.refusal = ParseRequestLine(lines[0], &head.request.page);
  for (size_t i = 1; i < lines.size() && head.refusal == 0; ++i) {
    if (!ParseHeader(lines[i], &head)) head.refusal = 400;
  }
  if (head.refusal != 0) head.keeps = false;
  return head;
}

}  // namespace cowprof
