// Gives equal names equal numbers, whatever rows they come from.
#include "attribution/copy_sites.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cowprof {
namespace {

constexpr size_t kMostKnown = 1 << 16;  // more than twice the rows that the probes have room for

}  // namespace

int CopySites::FrameNumber(const Frame& frame) {
  const auto [known, is_new] =
      frames_.try_emplace(std::make_tuple(frame.file, frame.function, frame.line), static_cast<int>(frames_.size()));
  if (!is_new) return known->second;
  new_frames_.push_back(frame);
  imports_.push_back(frame.file.starts_with("<frozen importlib"));
  return known->second;
}

const std::vector<int>& CopySites::StackOf(uint64_t stack, Program& program) {
  const auto [known, is_new] = stacks_.try_emplace({program.image(), stack});
  if (!is_new || stack == 0) return known->second;
  for (const cowprof_frame& one : faults_->ReadStack(stack)) {
    // A frame that can't be read any more stays in the stack without a name, so that its caller is not blamed.
    if (const std::optional<Frame> frame = program.FrameOf(one)) known->second.push_back(FrameNumber(*frame));
  }
  return known->second;
}

CopySites::Key CopySites::KeyOf(const CopySiteRow& row, const Member& member) const {
  const uint32_t image = row.image != 0 ? row.image : programs_->OfRow(row.image, member).image();
  return {image, row.shape, row.ip, row.type, row.stack};
}

int CopySites::NumberOf(const CopySiteRow& row, const Member& member) {
  Program& program = programs_->OfRow(row.image, member);
  const Key key = KeyOf(row, member);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  program.memory().Prefer(member.id);
  const NativeSymbol symbol = (row.ip != 0 ? program.SymbolOf(row.ip) : std::nullopt).value_or(NativeSymbol{});
  CopySite copy_site = {
      .cause = causes_->Of(program, member, row.image, row.shape, row.ip),
      .type = row.shape == COWPROF_SHAPE_COUNTED ? program.NativeTypeName(row.type) : program.TypeName(row.type),
      .module = symbol.module,
      .symbol = symbol.symbol,
      .frames = StackOf(row.stack, program)};
  const std::string text = absl::StrCat(static_cast<int>(copy_site.cause), "\n", copy_site.type, "\n", copy_site.module,
                                        "\n", copy_site.symbol, "\n", absl::StrJoin(copy_site.frames, ","));
  const auto [known, is_new] = by_text_.try_emplace(text, static_cast<int>(by_text_.size()));
  if (is_new) new_copy_sites_.push_back(std::move(copy_site));
  known_[key] = known->second;
  return known->second;
}

// A program has thousands of places where modules import modules; from its own import statement on they tell nothing.
std::vector<int> CopySites::WithoutImports(const std::vector<int>& frames) const {
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), [&](int frame) { return imports_[frame]; });
  if (outermost == frames.rend()) return frames;
  return {outermost.base() - 1, frames.end()};
}

int CopySites::GrowthNumberOf(const CopySiteRow& row, const Member& member) {
  Program& program = programs_->OfRow(row.image, member);
  const Key key = KeyOf(row, member);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  program.memory().Prefer(member.id);
  std::vector<int> frames = WithoutImports(StackOf(row.stack, program));
  const auto [known, is_new] = growth_sites_.try_emplace(frames, static_cast<int>(growth_sites_.size()));
  if (is_new) new_growth_sites_.push_back({std::move(frames)});
  known_[key] = known->second;
  return known->second;
}

void CopySites::Read(const std::vector<CopySiteRow>& rows) {
  absl::flat_hash_map<std::pair<int, int>, CopySiteCount> counts;  // by process and copy site
  absl::flat_hash_map<std::pair<int, int>, GrowthCount> growth;
  for (const CopySiteRow& row : rows) {
    const Member* member = programs_->Find(row.serial);
    if (member == nullptr) continue;
    const int index = member->index;
    if (row.shape == COWPROF_SHAPE_NEW) {
      const int site = GrowthNumberOf(row, *member);
      GrowthCount& count = growth[{index, site}];
      count = {index, site, count.pages + row.copies, count.samples + row.samples};
      continue;
    }
    const int copy_site = NumberOf(row, *member);
    CopySiteCount& count = counts[{index, copy_site}];
    count.index = index;
    count.copy_site = copy_site;
    count.copies += row.copies;
    count.samples += row.samples;
    count.squares += row.squares;
  }
  if (known_.size() > kMostKnown || stacks_.size() > kMostKnown) KeepOnly(rows);
  for (const auto& [key, count] : counts) {
    if (std::exchange(read_copies_[key], count.copies) != count.copies) changed_[key] = count;
  }
  for (const auto& [key, count] : growth) {
    if (std::exchange(read_growth_[key], count.pages) != count.pages) changed_growth_[key] = count;
  }
}

// Children that import after the fork have their code elsewhere each time, and so ever new stacks. The rows that there
// are keep their numbers: their stacks can't be read a second time. Others are named again, alike, if they come back.
void CopySites::KeepOnly(const std::vector<CopySiteRow>& rows) {
  decltype(known_) known;
  decltype(stacks_) stacks;
  for (const CopySiteRow& row : rows) {
    const Member* member = programs_->Find(row.serial);
    if (member == nullptr) continue;
    if (auto one = known_.extract(KeyOf(row, *member))) known.insert(std::move(one));
    if (auto one = stacks_.extract({programs_->OfRow(row.image, *member).image(), row.stack}))
      stacks.insert(std::move(one));
  }
  known_ = std::move(known);
  stacks_ = std::move(stacks);
}

void CopySites::Tell(const absl::flat_hash_set<int>* only, Sample* sample) {
  sample->new_frames = std::exchange(new_frames_, {});
  sample->new_copy_sites = std::exchange(new_copy_sites_, {});
  sample->new_growth_sites = std::exchange(new_growth_sites_, {});
  const auto move = [only](auto* changed, auto* told) {
    std::erase_if(*changed, [&](const auto& entry) {
      const bool wanted = only == nullptr || only->contains(entry.first.first);
      if (wanted) told->push_back(entry.second);
      return wanted;
    });
  };
  move(&changed_, &sample->copy_sites);
  move(&changed_growth_, &sample->growth);
}

void CopySites::Forget(const Programs::Forgotten& forgotten) {
  const auto is_gone = [&](const auto& entry) { return forgotten.indexes.contains(entry.first.first); };
  if (!forgotten.indexes.empty()) {
    absl::erase_if(read_copies_, is_gone);
    absl::erase_if(read_growth_, is_gone);
  }
  if (forgotten.images.empty()) return;
  absl::erase_if(known_, [&](const auto& entry) { return forgotten.images.contains(std::get<0>(entry.first)); });
  absl::erase_if(stacks_, [&](const auto& entry) { return forgotten.images.contains(entry.first.first); });
}

}  // namespace cowprof
