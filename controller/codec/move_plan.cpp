#include "controller/codec/move_plan.h"

#include <nlohmann/json.hpp>

namespace egpu::codec {

base::Result<MovePlanAnswer> decodeMovePlan(std::string_view json) {
  using Json = nlohmann::json;
  const auto root = Json::parse(json, nullptr, false);
  try {
    MovePlanAnswer answer;
    answer.text = root.at("text").get<std::string>();
    answer.possible = root.at("possible").get<bool>();
    answer.holds = root.value("holds", false);
    answer.ofClaim = root.contains("subject");
    if (answer.ofClaim) {
      answer.claim = root["subject"].value("claim", "");
      answer.phase = root["subject"].value("phase", "");
    }
    if (root.contains("gang")) {
      const auto& gang = root["gang"];
      answer.gang = (gang.value("podGroup", false) ? "PodGroup " : "gang ") + gang.at("name").get<std::string>();
      answer.phase = gang.value("phase", "");
    }
    for (const auto& move : root.at("moves"))
      answer.moves.push_back({move.at("claim").get<std::string>(), move.at("device").get<std::string>(),
                              move.at("to").at("node").get<std::string>(),
                              move.at("pods").get<std::vector<std::string>>(), move.value("annotate", "")});
    return answer;
  } catch (const Json::exception& e) {
    return base::Status(base::Code::malformed, std::string("no plan of moves: ") + e.what());
  }
}

}  // namespace egpu::codec
