//! What messages cost that wait for messages, beside the same messages as a list with fixed starts: `tools/work_cost.py` counts
//! the instructions of both. Arguments: `work` or `list`, `run` or `build`, and the folder that the tool filled.

use tailback_compat::astra::Astra;
use tailback_compat::hpcc::plan::Flow;
use tailback_compat::hpcc::{HpccPlan, HpccSimulation};
use tailback_sim::plan::Plan;
use tailback_sim::Simulation;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [way, until, folder] = &args[..] else { return Err("expected work|list run|build FOLDER".into()) };
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}"));
    if let Ok(plan) = read("native.json") {
        let mut plan = Plan::from_json(&plan)?;
        if way == "list" {
            plan.jobs.clear();
            plan.flows.list = serde_json::from_str(&read("list.json")?)?;
        }
        let mut simulation = Simulation::new(plan)?;
        while until == "run" && !simulation.advance(100_000).done {}
        println!("{:?}", simulation.progress());
        if until == "run" {
            simulation.finish();
        }
        return Ok(());
    }
    let mut plan = HpccPlan::from_json(&read("plan.json")?)?;
    let mut simulation = if way == "work" {
        let ranks = 0..std::fs::read_dir(format!("{folder}/inputs"))?.count();
        let traces: Vec<_> = ranks.map(|rank| format!("{folder}/inputs/w.{rank}.et").into()).collect();
        let work = Astra::new(serde_json::from_str(&read("astra.json")?)?, &traces)?;
        HpccSimulation::with_work(&plan, Box::new(work))?
    } else {
        plan.flows = serde_json::from_str::<Vec<Flow>>(&read("list.json")?)?;
        HpccSimulation::new(&plan)?
    };
    while until == "run" && !simulation.advance(100_000).done {}
    println!("{:?}", simulation.progress());
    Ok(())
}
