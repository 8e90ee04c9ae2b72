"""What turns, a second agent and shared credit are worth, at the same number of evaluations.

    python benchmarks/turns_and_agents.py                    # four kinds of runs, three seeds
    python benchmarks/turns_and_agents.py --seeds 1 --steps 3 --held-out 20

Each kind of run ends at the step in which it has had as many kernels judged as the first one. Afterwards each answers
the same held-out prompts with at most five kernels: in one conversation of five turns, or, where it learned single
turns, in five conversations of one. Compared is the best reward of each prompt, as a mean difference with a 95 %
bootstrap interval over prompts and seeds, whatever it is. The runs with one agent begin with the same weights, and so
do those with two.
"""

import argparse
import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from record import save
from served import served
from trained import Trained, interval, train

from common.client import AsyncClient
from trainer.agents import PolicySettings, TrainableAgent
from trainer.config.reading import load
from trainer.conversation import AgentName, Flow
from trainer.episode import Policy, play_many, settings_of
from trainer.evaluation import EvaluatorOracle
from trainer.tasks import chosen, held_out_tasks

KERNELS = 5
KINDS = {
    "two_agents": ["agents.optimizer={}", "flow.credit=true"],
    "no_credit": ["agents.optimizer={}", "flow.credit=false"],
    "one_agent": ["agents.optimizer=null", "flow.credit=true"],
    "single_turn": ["agents.optimizer=null", "flow.max_turns=1"],
}
BEGINS_AS = {"no_credit": "two_agents", "single_turn": "one_agent"}
PAIRS = (("one_agent", "single_turn"), ("two_agents", "one_agent"), ("two_agents", "no_credit"))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--steps", type=int, default=20, help="policy steps of the first kind of run")
    asked.add_argument("--held-out", type=int, default=100, help="prompts that all answer afterwards")
    asked.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the service")
    asked.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of all runs")
    given = asked.parse_args()
    best: dict[str, list[float]] = {kind: [] for kind in KINDS}
    judged: dict[str, list[int]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="assay-turns-") as scratch, served(given.workers) as service:
        for seed in range(1, given.seeds + 1):
            runs: dict[str, Trained] = {}
            for kind, own in KINDS.items():
                settings = [
                    f"flow.max_turns={KERNELS}",
                    *own,
                    *given.settings,
                    f"seed={seed}",
                    "tasks.held_out=8",
                    "checkpointing.evaluate_at_start=false",
                ]
                wanted = judged["two_agents"][seed - 1] if kind != "two_agents" else None
                if kind in BEGINS_AS:
                    first = runs[BEGINS_AS[kind]]
                    names = [f"agents.{role}.model_name={first.start(role)}" for role in first.config.roles]
                    settings += [*names, "model.warm_start.steps=0"]
                least = given.steps
                if wanted and kind == "single_turn":
                    least = wanted // load("cpu-demo", settings).episodes_per_step
                run = budgeted(Path(scratch, f"{kind}-{seed}"), service.url, settings, least, wanted)
                runs[kind] = run
                judged[kind].append(kernels(run))
                best[kind] += asyncio.run(answered(run, service.url, given.held_out))
    figures: dict[str, float] = {}
    for kind in KINDS:
        figures[f"{kind}_reward"] = fmean(best[kind])
        figures[f"{kind}_kernels"] = fmean(judged[kind])
    for one, other in PAIRS:
        differences = [a - b for a, b in zip(best[one], best[other], strict=True)]
        low, high = interval(differences)
        name = f"{one}_over_{other}"
        figures |= {name: fmean(differences), f"{name}_low": low, f"{name}_high": high}
    save("turns_and_agents", figures, {}, device="no GPU", details={"best": best, "asked": vars(given)})


def budgeted(folder: Path, url: str, settings: list[str], steps: int, wanted: int | None) -> Trained:
    """A run of so many steps; or of as many as it needs until `wanted` kernels were judged, going on step by step."""
    run = train(folder, url, [*settings, f"algorithm.steps={steps}"])
    while wanted is not None and (have := kernels(run)) < 0.97 * wanted:
        steps = max(steps + 1, round(steps * wanted / have))
        run = train(folder, url, [*settings, f"algorithm.steps={steps}"])
    return run


def kernels(run: Trained) -> int:
    """Kernels that the evaluator judged while it was trained."""
    return sum(
        attempt.repeats is None and attempt.verdict is not None
        for conversation in run.training()
        for attempt in conversation.attempts
    )


async def answered(run: Trained, url: str, count: int) -> list[float]:
    """The best reward of each held-out prompt, in at most five kernels."""
    settings = settings_of(run.config)
    single = settings.flow.max_turns == 1
    # All five kernels are counted, also of conversations that began well.
    settings = replace(settings, flow=Flow(settings.flow.max_turns, 2.0, single_agent=settings.flow.single_agent))
    sampling = PolicySettings(kl_coefficient=0.0)
    policies: dict[AgentName, Policy] = {
        AgentName(role): TrainableAgent(run.weights(role), sampling) for role in run.config.roles
    }
    async with EvaluatorOracle(AsyncClient(url)) as oracle:
        faces = chosen(await oracle.problems(), run.config.tasks.problems)
        tasks = held_out_tasks(faces, count, wording=run.config.tasks.wording)
        each = KERNELS if single else 1
        played = await play_many(
            [(task, 1000 * place + number) for place, task in enumerate(tasks) for number in range(each)],
            policies,
            oracle,
            settings,
        )
    if played.faults:
        raise SystemExit(f"{played.faults} evaluations failed on our side; the comparison would be of other prompts.")
    values = [one.final_reward or 0.0 for one in played.whole]
    return [max(values[at : at + each]) for at in range(0, len(values), each)]


if __name__ == "__main__":
    main()
