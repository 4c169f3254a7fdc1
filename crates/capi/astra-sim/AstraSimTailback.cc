// ASTRA-sim on libtailback: its system layer as it is, with libtailback in place of its ns-3. Same files, same flags.
//
// The plan of the network comes from `python3 -m tailback.astra.network CONFIG`; TAILBACK_PYTHON names another interpreter.

#include "astra-sim/common/AstraNetworkAPI.hh"
#include "astra-sim/common/Logging.hh"
#include "astra-sim/system/Sys.hh"
#include "extern/remote_memory_backend/analytical/AnalyticalRemoteMemory.hh"
#include "tailback.h"

#include <json/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& line) {
    std::cerr << line << std::endl;
    std::exit(2);
}

// One for each rank, and one network for all.
class TailbackNetwork : public AstraSim::AstraNetworkAPI {
  public:
    TailbackNetwork(int rank, tailback* network, std::vector<bool>& finished)
        : AstraNetworkAPI(rank), network(network), finished(finished) {}

    int sim_send(void*, uint64_t count, int, int dst, int tag, AstraSim::sim_request*, void (*handler)(void*),
                 void* arg) override {
        return done(tailback_send(network, rank, dst, count, tag, handler, arg));
    }

    int sim_recv(void*, uint64_t count, int, int src, int tag, AstraSim::sim_request*, void (*handler)(void*),
                 void* arg) override {
        return done(tailback_receive(network, rank, src, count, tag, handler, arg));
    }

    void sim_schedule(AstraSim::timespec_t delta, void (*handler)(void*), void* arg) override {
        tailback_schedule(network, static_cast<uint64_t>(delta.time_val), handler, arg);
    }

    BackendType get_backend_type() override { return BackendType::NS3; }

    AstraSim::timespec_t sim_get_time() override {
        AstraSim::timespec_t now;
        now.time_res = AstraSim::NS;
        now.time_val = tailback_now(network);
        return now;
    }

    void sim_notify_finished() override {
        finished[rank] = true;
        for (bool one : finished) {
            if (!one) return;
        }
        tailback_stop(network);
    }

  private:
    int done(int status) {
        if (status != 0) fail(tailback_error(network));
        return status;
    }

    tailback* network;
    std::vector<bool>& finished;
};

using Options = std::map<std::string, std::string>;

Options options_of(int argc, char* argv[]) {
    Options options = {{"comm-group-configuration", "empty"},
                       {"logging-configuration", "empty"},
                       {"num-queues-per-dim", "1"},
                       {"comm-scale", "1"},
                       {"injection-scale", "1"},
                       {"rendezvous-protocol", "false"},
                       {"fct", "fct.txt"}};
    for (int at = 1; at < argc; at++) {
        std::string word = argv[at];
        size_t equals = word.find('=');
        if (word.rfind("--", 0) != 0 || equals == std::string::npos) fail(word + ": expected --NAME=VALUE");
        options[word.substr(2, equals - 2)] = word.substr(equals + 1);
    }
    for (const char* name : {"workload-configuration", "system-configuration", "network-configuration",
                             "remote-memory-configuration", "logical-topology-configuration"}) {
        if (!options.count(name)) fail(std::string("expected --") + name + "=FILE");
    }
    return options;
}

std::vector<int> dims_of(const std::string& file) {
    std::ifstream in(file);
    if (!in) fail(file + ": expected a file, found none");
    const nlohmann::json logical = nlohmann::json::parse(in);
    std::vector<int> dims;
    for (const auto& size : logical.at("logical-dims")) dims.push_back(std::stoi(size.get<std::string>()));
    return dims;
}

std::string plan_of(const std::string& config) {
    const char* python = std::getenv("TAILBACK_PYTHON");
    std::string quoted = "'";
    for (char letter : config) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    std::string command = std::string(python ? python : "python3") + " -m tailback.astra.network " + quoted + "'";
    FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) fail(command + ": could not be started");
    std::string plan;
    char buffer[1 << 16];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) plan.append(buffer, n);
    if (pclose(pipe) != 0) fail(config + ": there is no plan of it");
    return plan;
}

}  // namespace

int main(int argc, char* argv[]) {
    Options options = options_of(argc, argv);
    AstraSim::LoggerFactory::init(options["logging-configuration"]);
    char error[1024];
    tailback* network = tailback_open(plan_of(options["network-configuration"]).c_str(), error, sizeof error);
    if (!network) fail(error);
    std::vector<int> dims = dims_of(options["logical-topology-configuration"]);
    std::vector<int> queues(dims.size(), std::stoi(options["num-queues-per-dim"]));
    int ranks = 1;
    for (int size : dims) ranks *= size;
    std::vector<bool> finished(ranks, false);
    auto* memory = new Analytical::AnalyticalRemoteMemory(options["remote-memory-configuration"]);
    std::vector<AstraSim::Sys*> systems;
    for (int rank = 0; rank < ranks; rank++) {
        systems.push_back(new AstraSim::Sys(
            rank, options["workload-configuration"], options["comm-group-configuration"],
            options["system-configuration"], memory, new TailbackNetwork(rank, network, finished), dims, queues,
            std::stod(options["injection-scale"]), std::stod(options["comm-scale"]),
            options["rendezvous-protocol"] == "true"));
    }
    for (AstraSim::Sys* system : systems) system->workload->fire();
    int status = tailback_run(network);
    if (status == 0) status = tailback_write_fct(network, options["fct"].c_str());
    if (status != 0) fail(tailback_error(network));
    bool all = true;
    for (int rank = 0; rank < ranks; rank++) {
        if (!finished[rank]) std::cerr << "sys[" << rank << "] waits for what never comes" << std::endl;
        all = all && finished[rank];
    }
    AstraSim::LoggerFactory::shutdown();
    return all ? 0 : 1;
}
