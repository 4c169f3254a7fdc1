# %% [markdown]
# # Compare: what differs between runs
#
# Two sides with three seeds each: what was set differently, which figures differ by more than chance, and where each is stuck.

# %%
import tailback

sides = [
    [
        tailback.run("first-flow", sets=["run.duration=5ms", f"host.mtu={mtu}"], seed=seed)
        for seed in (1, 2, 3)
    ]
    for mtu in ("1024B", "4096B")
]
tailback.compare(*sides)
