// The rules of claims.
#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "api/v1alpha/validation_rules.h"

namespace egpu::v1alpha {

namespace {

constexpr std::string_view kRequests = "spec.resources.requests";
constexpr int64_t kMostMemory = int64_t{16} << 50;  // bytes: 16Pi
constexpr int64_t kMostGiB = kMostMemory >> 30;

std::string requestField(const std::string& key) { return std::string(kRequests) + "[" + key + "]"; }

/// What stands before and after the last slash; both empty if there is none.
struct RequestKey {
  std::string_view prefix, resource;
  explicit RequestKey(std::string_view key) {
    const std::size_t slash = key.rfind('/');
    if (slash == std::string_view::npos) return;
    prefix = key.substr(0, slash);
    resource = key.substr(slash + 1);
  }
  bool known() const {
    constexpr std::size_t longest = 264;
    return prefix.size() + 1 + resource.size() <= longest && rules::isDottedName(prefix) &&
           (resource == keys::kGpu || resource == keys::kGpuCore || resource == keys::kGpuMemory ||
            resource == keys::kTflops);
  }
  bool common() const { return prefix == keys::kGroup; }
};

/// The bound of each resource. The amount is a quantity greater than zero.
void checkAmount(const std::string& key, std::string_view resource, const Quantity& amount, std::string_view text,
                 FieldErrors& errors) {
  const auto refuse = [&](std::string_view why) { errors.push_back({requestField(key), std::string(why)}); };
  if (resource == keys::kGpu && (!amount.writtenWhole || amount.exceeds(128)))
    refuse("gpu is a whole number of cards, at most 128");
  if (resource == keys::kGpuCore && (!amount.writtenWhole || amount.exceeds(12800)))
    refuse("gpu-core is a whole number of percent of one card, at most 12800 (128 cards)");
  if (resource == keys::kTflops && amount.exceeds(1'000'000)) refuse("tflops is at most 1000000");
  if (resource != keys::kGpuMemory) return;
  const char last = text.back();
  if (amount.form == QuantityForm::bareDecimal || last == 'n' || last == 'u' || last == 'm')
    refuse("gpu-memory is bytes with a suffix (4Gi) or a whole number of GiB (4), nothing finer than a byte");
  if (amount.exceeds(amount.form == QuantityForm::bareInteger ? kMostGiB : kMostMemory))
    refuse("gpu-memory is at most 16Pi; a bare whole number is GiB, bytes need a suffix or quotes (\"4e9\")");
}

void checkRequests(const StringMap& requests, FieldErrors& errors) {
  const std::string* prefixed = nullptr;  // the first key of a provisioner's own prefix
  bool mixed = false;
  bool twice = false;
  for (const auto& [key, text] : requests) {
    const RequestKey parts(key);
    if (!parts.known()) {
      errors.push_back({requestField(key),
                        "unknown key: use <provisioner>/ or elasticgpu.io/ with gpu, gpu-core, gpu-memory or tflops"});
      continue;
    }
    if (!parts.common()) {
      if (prefixed && RequestKey(*prefixed).prefix != parts.prefix) mixed = true;
      if (!prefixed) prefixed = &key;
      if (requests.contains(std::string(keys::kGroup) + "/" + std::string(parts.resource))) twice = true;
    }
    const auto amount = rules::quantityOf(text);
    if (!amount || amount->nano <= 0) {
      std::string says = "must be a quantity greater than zero, such as 10, 4Gi or 1e3", why;
      if (!parseQuantity(text, &why) && why.find(" is no suffix: ") != std::string::npos) says += "; " + why;
      errors.push_back({requestField(key), std::move(says)});
      continue;
    }
    checkAmount(key, parts.resource, *amount, text, errors);
  }
  if (mixed)
    errors.push_back(
        {std::string(kRequests), "all keys must have the same prefix, the class's provisioner or elasticgpu.io"});
  if (twice) errors.push_back({std::string(kRequests), "the same resource is requested twice, under both prefixes"});
}

}  // namespace

FieldErrors validate(const ElasticGPUClaim& object) {
  FieldErrors errors;
  const auto& spec = object.spec;
  const auto checkName = [&](const std::string& name, std::string_view field) {
    if (!name.empty() && !isDnsSubdomain(name))
      errors.push_back({std::string(field), "must be a DNS subdomain: lower-case letters, digits, '-' and '.'"});
  };
  checkName(spec.className, "spec.egpuClassName");
  checkName(spec.priorityClassName, "spec.priorityClassName");
  checkName(spec.classNameAlias, "spec.elasticGPUClassName");
  checkName(spec.elasticGPUName, "spec.elasticGPUName");
  if (!spec.className.empty() && !spec.classNameAlias.empty() && spec.className != spec.classNameAlias)
    errors.push_back({"spec.elasticGPUClassName",
                      "elasticGPUClassName and egpuClassName are two spellings of one field and must agree"});
  if (spec.elasticGPUName.empty() && spec.requests.empty())
    errors.push_back({std::string(kRequests), "say what is wanted (requests) or which GPU (elasticGPUName)"});
  checkRequests(spec.requests, errors);
  if (object.status.phase == "Bound" && object.status.elasticGPUName.empty())
    errors.push_back({"status.elasticGPUName", "a Bound claim says which device it is bound to"});
  return errors;
}

FieldErrors validate(const ElasticGPUClaimTemplate& object) {
  ElasticGPUClaim claim;
  claim.spec = object.spec;
  auto errors = validate(claim);
  for (auto& error : errors) error.field.insert(0, "spec.");
  return errors;
}

FieldErrors validateUpdate(const ElasticGPUClaimTemplate& before, const ElasticGPUClaimTemplate& after) {
  auto errors = validate(after);
  if (before.spec != after.spec || before.labels != after.labels || before.annotations != after.annotations)
    errors.push_back({"spec", "a template is immutable; make another one, or delete it first"});
  return errors;
}

FieldErrors validateUpdate(const ElasticGPUClaim& before, const ElasticGPUClaim& after) {
  FieldErrors errors = validate(after);
  if (before.spec.effectiveClass() != after.spec.effectiveClass())
    errors.push_back({"spec.egpuClassName", "the class is immutable; make another claim"});
  // Only the controller knows the class: it writes status.requests where that says resizable.
  const bool resizable = !before.status.requests.empty() && !after.spec.requests.empty();
  if (before.spec.requests != after.spec.requests && !resizable)
    errors.push_back(
        {std::string(kRequests),
         "requests are immutable, unless the claim is bound and its class says resizable; make another claim"});
  if (!before.spec.elasticGPUName.empty() && before.spec.elasticGPUName != after.spec.elasticGPUName &&
      before.status.phase != "Lost")
    errors.push_back({"spec.elasticGPUName", "elasticGPUName is immutable once set, unless the claim is Lost"});
  return errors;
}

}  // namespace egpu::v1alpha
