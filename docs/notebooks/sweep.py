# %% [markdown]
# # Sweep: which differences are noise
#
# `tailback.sweep` runs a scenario at many points, each with the same seeds. This page is a notebook, carried out each time the book
# is built.

# %%
import tailback

done = tailback.sweep(
    scenario="first-flow",
    set={"run.duration": "5ms"},
    vary={"host.mtu": ["1024B", "4096B"], "traffic.0.qps": [1, 8]},
    seeds="1..3",
    metrics=["goodput.whole_run_bps", "Fullest queue, mean"],
)
done

# %% [markdown]
# `runs` is an Arrow table, a row a run; `means` has a row a point and measure, with 95 % intervals.

# %%
done.means.select(["host.mtu", "traffic.0.qps", "measure", "mean", "low", "high", "seeds"]).to_pylist()[:4]
