// Bodies of questions: accepted and refused contents, and the format of answers.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/base/printable.h"
#include "controller/whatif/service.h"
#include "tests/whatif/questions.h"

namespace egpu::whatif {
namespace {

TEST_F(QuestionsTest, ABodyMayHoldSeveralDocuments) {
  const std::string other = "kind: ElasticGPUClass\nmetadata: {name: c}\n---\n";
  const auto large =
      "metadata: {name: large}\nspec: {egpuClassName: share, resources: {requests: {elasticgpu.io/gpu: 2}}}\n";
  const auto two = answer("/explain", "", other + kSmall + "---\n" + large);
  EXPECT_TRUE(two.starts_with(R"({"answers":[{"subject":{"claim":"default/small")")) << two;
  has(two, R"(,{"subject":{"claim":"default/large")");
  const auto text = answer("/explain", "format=text", kSmall + "---\n" + large);
  has(text, "claim default/small of class share: gpu-core 30\n");
  has(text, "\n\nclaim default/large of class share: gpu 2\n");
  has(answer("/explain", "", other + kSmall), R"({"subject":{"claim":"default/small")");
  has(answer("/explain", "",
             "kind: List\napiVersion: v1\nitems:\n- " + std::string("{kind: ElasticGPUClaim, ") +
                 "metadata: {name: l}, spec: {egpuClassName: share, resources: {requests: "
                 "{elasticgpu.io/gpu-core: 10}}}}\n"),
      R"("claim":"default/l")");
  refuses(400, "body: document 2: spec: is missing", "/explain", "", kSmall + "---\nkind: ElasticGPUClaim\n");
  refuses(400, "body: kind: must be ElasticGPUClaim or Pod; no question is possible about a ElasticGPUClass",
          "/explain", "", other);
  refuses(400, "body: claim default/x: spec.egpuClassName: ElasticGPUClass \"none\" not found", "/explain", "",
          "metadata: {name: x}\nspec: {egpuClassName: none, resources: {requests: {elasticgpu.io/gpu: 2}}}\n");
  refuses(404, "body: steps[0].drain: there is no node \"n9\"", "/simulate", "", "steps: [{drain: n9}]");
  const auto ofQuery = ask("/simulate", "drain=n8", "steps: [{drain: n1}]");
  EXPECT_TRUE(ofQuery.body.starts_with("steps[1].drain")) << ofQuery.body;
}

TEST_F(QuestionsTest, WhatIsWrongWithADocumentNamesItAndItsObject) {
  const std::string bad =
      "kind: ElasticGPUClaim\nmetadata: {name: bad, namespace: t}\nspec: {egpuClassName: share, resources: {requests: "
      "{elasticgpu.io/gpu-core: lots}}}\n";
  refuses(400, "body: claim t/bad: spec.resources.requests[elasticgpu.io/gpu-core]: ", "/explain", "", bad);
  refuses(400, "body: document 2: claim t/bad: spec.resources", "/explain", "", kSmall + "---\n" + bad);
  const std::string other = "kind: ElasticGPUClass\nmetadata: {name: c}\n---\n";
  refuses(400, "body: document 3: claim t/bad: spec.resources", "/simulate", "", kSmall + "---\n" + other + bad);
  refuses(404, "body: document 2: pod default/p: claim none: there is no", "/simulate", "",
          kSmall + "---\n" +
              "kind: Pod\nmetadata: {name: p, annotations: {egpuc.elasticgpu.io/a: none}}\nspec: {containers: []}\n");
  refuses(404, "body: document 2: steps[0].drain: there is no node", "/simulate", "",
          kSmall + "---\nsteps: [{drain: n9}]\n");
}

TEST_F(QuestionsTest, BodiesAreReadAsJsonOrYamlAndOnlyThose) {
  http::Request r;
  r.method = "POST";
  r.path = "/simulate";
  r.body = kSmall;
  for (const char* type : {"", "application/json", "application/yaml", "Application/YAML; charset=utf-8",
                           "application/x-www-form-urlencoded"}) {  // curl's default
    r.headers = {{"content-type", type}};
    EXPECT_EQ(questions.answer(r).status, 200) << type;
  }
  r.headers = {{"content-type", "text/plain\033"}};
  const auto refused = questions.answer(r);
  EXPECT_EQ(refused.status, 415);
  EXPECT_EQ(refused.body,
            "Content-Type: \"text/plain\\x1b\" is not read; known are application/json, application/yaml\n");
}

TEST_F(QuestionsTest, AnAnswerThatReportsAnErrorIsMarked) {
  const auto marked = [&](const std::string& path, const std::string& query) {
    const auto headers = ask(path, query).headers;
    return std::any_of(headers.begin(), headers.end(),
                       [](const auto& h) { return h.first == QuestionService::kErrorHeader; });
  };
  EXPECT_FALSE(marked("/forecast", ""));
  EXPECT_FALSE(marked("/forecast", "gpu-core=10"));
  EXPECT_TRUE(marked("/forecast", "gpu-core=150"));
  claim("odd", "150");
  EXPECT_TRUE(marked("/forecast", "claim=odd"));
  EXPECT_FALSE(marked("/explain", "claim=waits"));
}

TEST_F(QuestionsTest, YamlIsTheJsonInBlocks) {
  const auto yaml = answer("/forecast", "class=share&gpu-core=10&format=yaml");
  has(yaml,
      "forecasts:\n- class: share\n  of: as requested\n  subject:\n    class: share\n    requests:\n"
      "      elasticgpu.io/gpu-core: \"10\"\n  count: 19\n");
}

TEST_F(QuestionsTest, LinesFitTheColumns) {
  const std::string large = std::string(120, 'l'), huge = std::string(181, 'h');
  claim(large, "60", "n1", "n1-c0");
  claim(huge, "90");
  const auto longest = [](const std::string& text) {
    std::size_t max = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find('\n', at), text.size());
      max = std::max(max, end - at);
      at = end + 1;
    }
    return max;
  };
  for (const auto& question :
       {std::string("/explain?claim=waits"), std::string("/simulate?claim=waits&drain=n1"), std::string("/forecast?"),
        std::string("/simulate?resize=a,gpu-core=90"), "/simulate?resize=" + large + ",gpu-core=90",
        "/simulate?release=" + large, "/explain?claim=" + huge}) {
    const auto mark = question.find('?');
    const auto path = question.substr(0, mark), query = question.substr(mark + 1);
    EXPECT_LE(longest(answer(path, query + "&format=text&columns=60")), 60U)
        << answer(path, query + "&format=text&columns=60");
    EXPECT_LE(longest(answer(path, query + "&format=text")), 100U);
  }
  EXPECT_GT(longest(answer("/simulate", "claim=waits&drain=n1&format=text&columns=0")), 100U);
}

TEST_F(QuestionsTest, RefusalsNameTheFieldAndWhatIsValid) {
  refuses(400, "unknown parameter \"clam\"; known are namespace, claim", "/explain", "clam=x");
  refuses(400, "the question is empty", "/explain");
  refuses(400, "the question is empty", "/simulate");
  refuses(404, "there is no ElasticGPUClaim \"t/x\"", "/explain", "claim=x&namespace=t");
  refuses(404, "there is no node \"n9\"", "/explain", "claim=waits&node=n9");
  refuses(400, "spec.egpuClassName: ElasticGPUClass \"no\" not found; there are share", "/explain", "class=no&gpu=1");
  refuses(400, "spec.egpuClassName: ElasticGPUClass \"no\" not found; there are share", "/forecast", "class=no");
  refuses(400, "gpu-core", "/explain", "class=share&gpu-core=lots");
  refuses(400, "above 100 only whole cards are given", "/explain", "class=share&gpu-core=150");
  refuses(400, "spec.elasticGPUName: there is no ElasticGPU \"zz\"", "/explain", "class=share&gpu=1&card=zz");
  refuses(400, "is a device", "/explain", "class=share&gpu=1&card=egpu-a");
  refuses(400, "claim: given twice", "/explain", "claim=a&claim=b");
  refuses(400, "claim: is empty", "/explain", "claim=");
  refuses(400, "names: \"many\" is not a whole number from 0 to 1000", "/explain", "claim=a&names=many");
  refuses(400, "format: \"xml\" is unknown; known are json, yaml, text", "/explain", "claim=a&format=xml");
  refuses(400, "columns: \"-1\" is not a whole number from 0 to 1000", "/explain", "claim=a&columns=-1");
  refuses(404, "steps[0].release: there is no claim \"t/a\"", "/simulate", "release=a&namespace=t");
  refuses(400, "give one of", "/explain", "claim=a&class=share&gpu=1");
  refuses(400, "body: ", "/explain", "", "{");
  refuses(400, "body: steps are for /simulate only", "/explain", "", "steps: [{drain: n1}]");
  refuses(400, "body: steps[0].drian: unknown", "/simulate", "", "steps: [{drian: n1}]");
  refuses(404, "steps[0].drain: there is no node \"n9\"", "/simulate", "drain=n9");
  refuses(404, "steps[1].release: there is no claim \"default/x\"", "/simulate", "drain=n1&release=x");
  refuses(404, "steps[0].resize: there is no claim \"default/x\"", "/simulate", "resize=x,gpu-core=10");
  refuses(400, "steps[0].resize: spec.resources.requests[elasticgpu.io/gpu-cores]: unknown key", "/simulate",
          "resize=a,gpu-cores=10");
  refuses(400, "resize: \"gpu-core\" is not of the form name=value", "/simulate", "resize=a,gpu-core");
  refuses(400, "add: \"lik\" is unknown; known are like, count", "/simulate", "add=x,lik=n1");
  refuses(400, "steps[0].add: give one of like", "/simulate", "add=x");
  refuses(400, "steps[1].add.count: more than 100000 cards in all", "/simulate",
          "add=x,like=n1,count=30000&add=y,like=n1,count=30000");
  refuses(400, "steps[0].add.name: there is a node \"n2\" already", "/simulate", "add=n2,like=n1");
}

TEST_F(QuestionsTest, ABodyThatExpandsIsRefused) {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'i'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) bomb += std::string(i > 0 ? "," : "") + "*" + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  refuses(400, "expands to more than 1 MiB", "/simulate", "", bomb);
  refuses(400, "no question needs so many", "/simulate", "", "steps: [" + std::string(60'000, ',') + "]");
  refuses(400, "nested deeper", "/simulate", "", "steps: " + std::string(5000, '[') + std::string(5000, ']'));
}

TEST_F(QuestionsTest, RefusalsShowControlCharactersInsteadOfObeyingThem) {
  addClass("esc", {{"preset", "\033[31mRED"}});
  for (const auto& [path, query] : {std::pair{"/explain", "claim=%1b[31m"},
                                    {"/explain", "%c2%9b31m=1"},
                                    {"/explain", "claim=waits&node=%1b[31m"},
                                    {"/explain", "claim=waits&format=%1b[31m"},
                                    {"/explain", "class=esc&gpu=1"},
                                    {"/simulate", "drain=%c2%9b31m"}}) {
    const auto r = ask(path, query);
    EXPECT_NE(r.status, 200) << query;
    EXPECT_FALSE(base::hasControls(std::string_view(r.body).substr(0, r.body.size() - 1))) << r.body;
    has(r.body, "\\x");
  }
}

TEST_F(QuestionsTest, TextsShowControlCharactersInsteadOfObeyingThem) {
  auto card = *stores.cards.get({"", "n1-c0"});
  card.metadata.resourceVersion = next();
  card.spec.card->model = "T4\033[2J";
  stores.cards.informed(card);
  for (const std::string color : {"", "&color=1"}) {
    const auto text =
        answer("/forecast", "format=text" + color) + answer("/explain", "claim=waits&format=text" + color);
    EXPECT_EQ(text.find("\033[2J"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace egpu::whatif
