# %% [markdown]
# # Tune: which settings are best
#
# Twelve trials of two settings, on one workload, judged on seeds and on a second workload that no trial saw. Real ones take a few hundred.

# %%
import tailback

bursts = {
    "name": "four-to-one",
    "run": {"duration": "1ms"},
    "topology": {"kind": "star", "hosts": 5},
    "traffic": [{"kind": "write", "from": ["h0", "h1", "h2", "h3"], "to": "h4", "qps": 4}],
}
done = tailback.tune(
    workloads=[{"scenario": bursts, "name": "four queue pairs"}],
    held_out=[{"scenario": bursts, "name": "eight queue pairs", "set": {"traffic.0.qps": 8}}],
    tune={
        "switch.ecn.k_min": {"low": "20KB", "high": "1MB", "scale": "log"},
        "switch.ecn.k_max": {"low": "50KB", "high": "3MB", "scale": "log"},
    },
    where=["switch.ecn.k_min < switch.ecn.k_max"],
    objectives=[{"metric": "Fullest queue, mean", "goal": "less"}],
    seeds="1..2",
    trials=12,
)
done

# %%
done.best.trial.point

# %% [markdown]
# What it gains, and where; noise is said to be noise.

# %%
for line in done.lines():
    print(line)
