// Validation rules of claims and claim templates.
#include <algorithm>

#include "api/v1alpha/keys.h"
#include "api/v1alpha/validation.h"
#include "api/v1alpha/validation_rules.h"

namespace egpu::v1alpha {

namespace {

constexpr std::string_view kRequests = "spec.resources.requests";
constexpr int64_t kMaxMemory = int64_t{16} << 50;  // bytes: 16Pi
constexpr int64_t kMaxGiB = kMaxMemory >> 30;

constexpr std::size_t kMaxModels = 16;

/// Splits a request key at its last slash; both parts are empty if there is none.
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
            resource == keys::kTflops || rules::isMigResource(resource));
  }
  bool common() const { return prefix == keys::kGroup; }
};

/// Checks the limits of each resource. The amount must be a quantity greater than zero.
void checkAmount(const std::string& field, std::string_view resource, const Quantity& amount, std::string_view text,
                 FieldErrors& errors) {
  const auto refuse = [&](std::string_view why) { errors.push_back({field, std::string(why)}); };
  if (resource == keys::kGpu && (!amount.writtenWhole || amount.exceeds(128)))
    refuse("gpu must be a whole number of cards, at most 128");
  if (resource == keys::kGpuCore && (!amount.writtenWhole || amount.exceeds(12800)))
    refuse("gpu-core must be a whole number of percent of one card, at most 12800 (128 cards)");
  if (resource == keys::kTflops && amount.exceeds(1'000'000)) refuse("tflops must be at most 1000000");
  if (resource.starts_with(keys::kMigPrefix) && (!amount.writtenWhole || amount.exceeds(Slots::kMemory)))
    refuse("mig-<profile> must be a whole number of instances, at most 8");
  if (resource != keys::kGpuMemory) return;
  const char last = text.back();
  if (amount.form == QuantityForm::bareDecimal || last == 'n' || last == 'u' || last == 'm')
    refuse("gpu-memory must be bytes with a suffix (4Gi) or a whole number of GiB (4), without fractions of a byte");
  if (amount.exceeds(amount.form == QuantityForm::bareInteger ? kMaxGiB : kMaxMemory))
    refuse(
        "gpu-memory must be at most 16Pi; a whole number without a suffix is in GiB, and bytes need a suffix or quotes "
        "(\"4e9\")");
}

void checkRequests(const StringMap& requests, const std::string& field, FieldErrors& errors) {
  const auto requestField = [&field](const std::string& key) { return field + "[" + key + "]"; };
  const std::string* prefixed = nullptr;  // first key with a provisioner's prefix
  bool mixed = false;
  bool twice = false;
  for (const auto& [key, text] : requests) {
    const RequestKey parts(key);
    if (!parts.known()) {
      errors.push_back({requestField(key),
                        "unknown key: use <provisioner>/ or elasticgpu.io/ with gpu, gpu-core, gpu-memory, tflops or "
                        "mig-<profile>, with . for + in the profile (mig-1g.10gb.me)"});
      continue;
    }
    if (!parts.common()) {
      if (prefixed && RequestKey(*prefixed).prefix != parts.prefix) mixed = true;
      if (!prefixed) prefixed = &key;
      if (requests.contains(std::string(keys::kGroup) + "/" + std::string(parts.resource))) twice = true;
    }
    const auto amount = rules::quantityOf(text);
    if (!amount || amount->nano <= 0) {
      std::string message = "must be a quantity greater than zero, such as 10, 4Gi or 1e3", why;
      if (!parseQuantity(text, &why) && why.find(" is no suffix: ") != std::string::npos) message += "; " + why;
      errors.push_back({requestField(key), std::move(message)});
      continue;
    }
    checkAmount(requestField(key), parts.resource, *amount, text, errors);
  }
  const bool instances = std::any_of(requests.begin(), requests.end(), [](const auto& request) {
    return rules::isMigResource(RequestKey(request.first).resource);
  });
  if (instances && requests.size() > 1)
    errors.push_back({field, "mig-<profile> must be the only key, because the profile gives the amounts"});
  if (mixed)
    errors.push_back(
        {field, "keys without the prefix elasticgpu.io must have the same prefix, the class's provisioner"});
  if (twice) errors.push_back({field, "the same resource is requested twice, under both prefixes"});
}

void checkModels(const std::vector<std::string>& models, const std::string& field, FieldErrors& errors) {
  constexpr std::size_t kMaxModel = 253;
  if (models.size() > kMaxModels) errors.push_back({field, "at most " + std::to_string(kMaxModels) + " models"});
  for (std::size_t i = 0; i < models.size(); ++i)
    if (models[i].empty() || models[i].size() > kMaxModel)
      errors.push_back({field + "[" + std::to_string(i) + "]", "a model has 1 to 253 characters"});
}

void checkAlternatives(const std::vector<ClaimAlternative>& all, FieldErrors& errors) {
  const std::string list = "spec.firstAvailable";
  if (all.size() > kMaxAlternatives)
    errors.push_back({list, "at most " + std::to_string(kMaxAlternatives) + " alternatives"});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& each = all[i];
    const auto field = list + "[" + std::to_string(i) + "]";
    if (!isDnsLabel(each.name))
      errors.push_back({field + ".name", "must be a DNS label: lower-case letters, digits and '-'"});
    if (std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const auto& before) { return before.name == each.name; }))
      errors.push_back({list, "the names of alternatives must be unique"});
    checkModels(each.models, field + ".models", errors);
    if (each.requests.empty()) errors.push_back({field + ".resources.requests", "requests are required"});
    checkRequests(each.requests, field + ".resources.requests", errors);
  }
}

/// Checks which fields can be combined.
void checkForms(const ElasticGPUClaimSpec& spec, FieldErrors& errors) {
  const bool several = !spec.firstAvailable.empty();
  if (several && !spec.requests.empty())
    errors.push_back({"spec.firstAvailable", "set either resources.requests or firstAvailable, not both"});
  if (spec.elasticGPUName.empty() && spec.requests.empty() && !several)
    errors.push_back({std::string(kRequests), "requests, firstAvailable or elasticGPUName is required"});
  if (!spec.adminAccess) return;
  const bool amounts = std::any_of(spec.requests.begin(), spec.requests.end(), [](const auto& request) {
    return RequestKey(request.first).resource != keys::kGpu;
  });
  if (several || amounts)
    errors.push_back(
        {"spec.adminAccess",
         "with adminAccess, only a number of cards (gpu) can be requested: no other amounts and no firstAvailable"});
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
  if (!spec.isolation.empty() && !isDnsLabel(spec.isolation))
    errors.push_back({"spec.isolation", "must be a DNS label: lower-case letters, digits and '-'"});
  checkModels(spec.models, "spec.models", errors);
  checkForms(spec, errors);
  checkRequests(spec.requests, std::string(kRequests), errors);
  checkAlternatives(spec.firstAvailable, errors);
  if (object.status.phase == "Bound" && object.status.elasticGPUName.empty())
    errors.push_back({"status.elasticGPUName", "must name the device if phase is Bound"});
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
    errors.push_back({"spec", "a template is immutable; create another one, or delete this one first"});
  return errors;
}

FieldErrors validateUpdate(const ElasticGPUClaim& before, const ElasticGPUClaim& after) {
  FieldErrors errors = validate(after);
  if (before.spec.effectiveClass() != after.spec.effectiveClass())
    errors.push_back({"spec.egpuClassName", "the class is immutable; create another claim"});
  // Only the controller knows the class. It sets status.requests if the class is resizable.
  const bool resizable = !before.status.requests.empty() && !after.spec.requests.empty();
  if (before.spec.requests != after.spec.requests && !resizable)
    errors.push_back(
        {std::string(kRequests),
         "requests are immutable, unless the claim is bound and its class is resizable; create another claim"});
  if (before.spec.firstAvailable != after.spec.firstAvailable)
    errors.push_back({"spec.firstAvailable", "alternatives are immutable; create another claim"});
  if (before.spec.models != after.spec.models)
    errors.push_back({"spec.models", "models are immutable; create another claim"});
  if (before.spec.isolation != after.spec.isolation)
    errors.push_back({"spec.isolation", "isolation is immutable; create another claim"});
  if (before.spec.adminAccess != after.spec.adminAccess)
    errors.push_back({"spec.adminAccess", "adminAccess is immutable; create another claim"});
  if (!before.spec.elasticGPUName.empty() && before.spec.elasticGPUName != after.spec.elasticGPUName &&
      before.status.phase != "Lost")
    errors.push_back({"spec.elasticGPUName", "elasticGPUName is immutable once set, unless the claim is Lost"});
  return errors;
}

}  // namespace egpu::v1alpha
