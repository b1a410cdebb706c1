#include "device_plugin/api_server.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/file.h"

namespace krux::device_plugin {
namespace {

constexpr long kTimeoutMs = 10'000;
constexpr size_t kMaxAnswerBytes = 256 * 1024;
constexpr size_t kMaxTokenBytes = 64 * 1024;

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Called by libcurl; a longer answer than any we expect ends the transfer.
size_t Collect(const char* data, size_t size, size_t count, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (text.size() + size * count > kMaxAnswerBytes) return 0;
  text.append(data, size * count);
  return size * count;
}

Result<std::string> AuthorizationHeader(const std::string& token_file) {
  KRUX_ASSIGN_OR_RETURN(std::string token, ReadFile(token_file, kMaxTokenBytes).With("API token"));
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (token.empty() || std::any_of(token.begin(), token.end(), [](char c) { return c < '!'; })) {
    return Error{ErrorCode::kInvalidArgument, "API token: " + token_file + " holds no token"};
  }
  return "Authorization: Bearer " + token;
}

// The sentence of a Kubernetes Status object, or nothing.
std::string MessageOf(const std::string& answer) {
  const auto root = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return "";
  const auto message = root.find("message");
  return message != root.end() && message->is_string() ? message->get<std::string>() : "";
}

Status Judge(long http_status, const std::string& answer) {
  if (http_status >= 200 && http_status < 300) return Ok();
  ErrorCode code = ErrorCode::kInvalidArgument;
  if (http_status == 401 || http_status == 403) code = ErrorCode::kPermissionDenied;
  if (http_status == 404) code = ErrorCode::kNotFound;
  if (http_status == 429 || http_status >= 500) code = ErrorCode::kUnavailable;
  return Error{code, "the API server answered " + std::to_string(http_status) + ": " +
                         MessageOf(answer).substr(0, 500)};
}

}  // namespace

Status ApiServer::Apply(const std::string& path, const std::string& json) const {
  const std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  std::unique_ptr<curl_slist, CurlDeleter> headers;
  const auto add_header = [&](const std::string& text) {
    headers.reset(curl_slist_append(headers.release(), text.c_str()));
  };
  add_header("Content-Type: application/apply-patch+yaml");  // JSON is YAML
  add_header("Accept: application/json");
  if (!options_.token_file.empty()) {
    KRUX_ASSIGN_OR_RETURN(const std::string header, AuthorizationHeader(options_.token_file));
    add_header(header);
  }
  const std::string url = options_.url + path + "?fieldManager=krux-device-plugin&force=true";
  std::string answer;
  char error_text[CURL_ERROR_SIZE] = {};
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, "PATCH");
  curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, json.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);  // other threads run
  curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");     // the API server is never behind one
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, Collect);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, error_text);
  if (!options_.ca_file.empty()) {
    curl_easy_setopt(curl.get(), CURLOPT_CAINFO, options_.ca_file.c_str());
  }
  const CURLcode rc = curl_easy_perform(curl.get());
  if (rc != CURLE_OK) {
    return Error{ErrorCode::kUnavailable,
                 "reaching the API server at " + options_.url + ": " +
                     (error_text[0] != '\0' ? error_text : curl_easy_strerror(rc))};
  }
  long http_status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &http_status);
  return Judge(http_status, answer);
}

}  // namespace krux::device_plugin
