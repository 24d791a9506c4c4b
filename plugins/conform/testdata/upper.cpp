// A handler for the task type "upper" in C++, without gRPC: it speaks in lines of JSON over its
// standard input and output, as docs/handlers.md describes them. Every task runs on a thread of
// its own, so that pings and cancels are answered meanwhile.
//
//	g++ -std=c++17 -O2 -pthread -o upper upper.cpp    # with nlohmann-json3-dev
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>

#include <nlohmann/json.hpp>

using nlohmann::json;

constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(const std::string &bytes) {
  std::string out;
  uint32_t bits = 0;
  int n = 0;  // bits that are not written yet
  for (unsigned char c : bytes) {
    bits = bits << 8 | c;
    for (n += 8; n >= 6; n -= 6) out += alphabet[bits >> (n - 6) & 63];
  }
  if (n > 0) out += alphabet[bits << (6 - n) & 63];
  out.append((4 - out.size() % 4) % 4, '=');
  return out;
}

std::string from_base64(const std::string &text) {
  std::string out;
  uint32_t bits = 0;
  int n = 0;
  for (char c : text) {
    if (c == '=') break;
    const char *at = std::find(alphabet, alphabet + 64, c);
    if (at == alphabet + 64) throw std::runtime_error("the payload is not base64");
    bits = bits << 6 | uint32_t(at - alphabet);
    if ((n += 6) >= 8) out += char(bits >> (n -= 8));
  }
  return out;
}

// Failure is why an attempt of a task did not succeed.
struct Failure : std::runtime_error {
  Failure(const std::string &message, std::string cls, bool permanent)
      : std::runtime_error(message), error_class(std::move(cls)), permanent(permanent) {}
  std::string error_class;
  bool permanent;
};

using Cancelled = std::atomic<bool>;

// The work itself.
std::string upper(std::string text, const Cancelled &cancelled) {
  for (size_t i = 0; i < text.size(); i++) {
    if (i % 65536 == 0 && cancelled) throw Failure("cancelled", "cancelled", false);
    text[i] = char(std::toupper(static_cast<unsigned char>(text[i])));
  }
  return text;
}

// Worker talks to the host. Only the thread that calls receive reads; everybody may send.
class Worker {
 public:
  void receive(const json &frame) {  // an absent field has its zero value
    if (frame.contains("welcome")) greet(frame["welcome"]);
    if (frame.contains("ping")) send({{"pong", frame["ping"]}});
    for (const json &run : frame.value("runs", json::array())) begin(run);
    for (const json &cancel : frame.value("cancels", json::array())) stop(cancel.value("run_id", ""));
  }

 private:
  void greet(const json &welcome) {
    if (int asked = welcome.value("slots", 0); asked > 0) slots_ = asked;
    max_result_ = std::stoull(welcome.value("max_result_bytes", "0"));  // 64 bits: as text
    json types = {"upper"};
    send({{"hello", {{"protocol", 1}, {"sdk", "c++"}, {"types", types}, {"slots", slots_}}}, {"credits", slots_}});
  }

  void begin(const json &run) {
    std::string id = run.at("run_id"), type = run.value("type", "");
    auto cancelled = std::make_shared<Cancelled>(false);
    std::unique_lock lock(mutex_);
    if (type != "upper" || running_.size() >= slots_) {
      lock.unlock();
      finish(id, {{"refused", {{"message", type != "upper" ? "it serves upper alone" : "all slots are taken"}}}});
      return;
    }
    running_[id] = cancelled;
    lock.unlock();
    std::thread([=, payload = run.value("payload", "")] { work(id, payload, *cancelled); }).detach();
  }

  void work(const std::string &id, const std::string &payload, const Cancelled &cancelled) {
    try {
      std::string result = upper(from_base64(payload), cancelled);
      if (max_result_ > 0 && result.size() > max_result_)
        throw Failure("the result has " + std::to_string(result.size()) + " bytes", "result_too_large", true);
      finish(id, {{"result", to_base64(result)}});
    } catch (const Failure &e) {
      finish(id, {{"error", {{"message", e.what()}, {"class", e.error_class}, {"permanent", e.permanent}}}});
    } catch (const std::exception &e) {
      finish(id, {{"error", {{"message", e.what()}}}});
    }
  }

  void stop(const std::string &id) {
    std::lock_guard lock(mutex_);
    if (auto run = running_.find(id); run != running_.end()) *run->second = true;
  }

  // Answers a run, and gives the credit for the next one.
  void finish(const std::string &id, json answer) {
    {
      std::lock_guard lock(mutex_);
      running_.erase(id);
    }
    answer["run_id"] = id;
    json finishes = json::array({std::move(answer)});
    send({{"finishes", std::move(finishes)}, {"credits", 1}});
  }

  void send(const json &frame) {
    std::string line = frame.dump();
    std::lock_guard lock(output_);
    std::cout << line << std::endl;
  }

  uint32_t slots_ = 4;       // written before the first run
  uint64_t max_result_ = 0;  // written before the first run
  std::mutex output_;        // one line at a time
  std::mutex mutex_;         // guards running_
  std::unordered_map<std::string, std::shared_ptr<Cancelled>> running_;
};

int main() {
  const char *cookie = std::getenv("TASKENGINE_HANDLER");
  if (!cookie || std::string(cookie) != "1f0d6bb2-handler") {
    std::cerr << "taskengine starts this program: name it as a plugin in its configuration\n";
    return 1;
  }
  std::cout << "1|1|stdio||json|" << std::endl;
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) worker.receive(json::parse(line));
  std::_Exit(0);  // the host is done with it or gone: no thread is waited for
}
