# %% [markdown]
# # Fit: what a lab does not tell
#
# The length of a cable, from the time that messages take. What the fit has seen is calibrated; the same at another load is predicted.

# %%
import tailback

lab = {
    "name": "lab",
    "run": {"duration": "200us"},
    "topology": {"kind": "star", "hosts": 3},
    "traffic": [{"kind": "poisson", "load": 0.5, "sizes": "fb_hadoop"}],
}
observed = [
    {"metric": "fct.all.fct_s.p50", "value": 9.0, "unit": "us", "tolerance": 0.5, "runs": 20},
    {
        "metric": "fct.all.fct_s.p50",
        "value": 9.0,
        "unit": "us",
        "tolerance": 0.5,
        "runs": 20,
        "held_out": True,
        "set": {"traffic.0.load": 0.2},
    },
]
done = tailback.fit(observed, lab, free={"topology.link.delay": "100ns..10us:log"}, points=8, refine=4)
done

# %% [markdown]
# The posterior as an Arrow table of draws that are equally likely, in seconds:

# %%
done.draws.slice(0, 5).to_pylist()
