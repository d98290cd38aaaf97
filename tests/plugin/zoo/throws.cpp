// Its provision throws, which violates the contract, and it does not use the SDK, which would catch that.
#include <stdexcept>

#include "api/plugin/provisioner.h"

namespace {

const egpu_host* host;

int describe(const egpu_call* call) {
  const egpu_description d = {sizeof(egpu_description), "throws.example.com", "1", "gpuShare", "Advisory"};
  return host->reply_description(call, &d);
}
int validate(const egpu_call*, const egpu_pair*, size_t) { return EGPU_OK; }
int provision(const egpu_call*, const egpu_device*) { throw std::runtime_error("out of here"); }
int deprovision(const egpu_call*) { return EGPU_OK; }
int list(const egpu_call*) { return EGPU_OK; }
int mount(const egpu_call*, const egpu_device*, const egpu_container*) { return EGPU_OK; }

const egpu_provisioner table = {sizeof(egpu_provisioner),
                                EGPU_ABI_VERSION,
                                describe,
                                validate,
                                provision,
                                deprovision,
                                nullptr,
                                list,
                                nullptr,
                                nullptr,
                                mount,
                                nullptr,
                                nullptr,
                                nullptr,
                                nullptr,
                                nullptr};

}  // namespace

extern "C" int egpu_provisioner_entry(const egpu_host* h, const egpu_provisioner** out) {
  host = h;
  *out = &table;
  return EGPU_OK;
}
