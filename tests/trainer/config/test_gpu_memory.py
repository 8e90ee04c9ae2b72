"""What each GPU holds, by hand for models of seven billion parameters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config.memory import GpuLoad, adapter_parameters, gpu_loads, host_bytes, tuning_load
from trainer.config.reading import load_config

B = 7_000_000_000
SEVEN = {"generator": B, "optimizer": B}
GIB = 1 << 30


def loads(name, *changes):
    return {load.use: load for load in gpu_loads(load_config(name, changes), SEVEN)}


def test_the_requirements_put_both_policies_on_two_of_eight_gpus():
    """Requirements document, "VERL Configuration": num_gpus 8, num_rollout_workers 4, num_actor_workers 2,
    num_critic_workers 2. Two agents of 7B, 16 bytes a parameter, on two GPUs: 112 GB on each, however many others
    there are.
    """
    found = loads("requirements")
    updates, critics = (
        found["update the generator and the optimizer"],
        found["update the critic of the generator and the optimizer"],
    )
    assert (updates.count, updates.state_bytes) == (critics.count, critics.state_bytes) == (2, 2 * B * 16 // 2)
    assert [updates.fits(size * GIB) for size in (80, 115, 117, 141)] == [False, False, True, True]
    generating = [found[f"generate for the {role}"] for role in SEVEN]
    assert [(load.count, load.server_weights_bytes, load.server_share) for load in generating] == [
        (2, 2 * B, 0.5)
    ] * 2
    assert sum(load.count for load in found.values()) == 8
    # All eight together have more than is needed in all, which says nothing of the two.
    assert sum(load.count * load.state_bytes for load in found.values()) < 0.9 * 8 * 80 * GIB


def test_the_same_models_on_all_gpus_by_turns():
    (shared,) = loads("requirements", "resources.layout=shared").values()
    assert (shared.count, shared.state_bytes) == (8, 2 * B * 32 // 8)
    assert shared.needed_bytes(80 * GIB) == shared.state_bytes + 40 * GIB
    (offloaded,) = loads("requirements", "resources.layout=shared", "model.offload=true").values()
    assert offloaded.state_bytes == B * 16 // 8, "one model at a time"
    assert offloaded.needed_bytes(80 * GIB) == 40 * GIB, "the servers sleep meanwhile"
    assert host_bytes(load_config("requirements", ["model.offload=true"]), SEVEN) == 2 * B * (2 + 16 + 16)


def test_agents_with_gpus_of_their_own_hold_their_own():
    found = loads(
        "requirements", "resources.layout=shared", "resources.generator_gpus=2", "resources.optimizer_gpus=6"
    )
    assert [(load.count, load.state_bytes) for load in found.values()] == [(2, B * 32 // 2), (6, B * 32 // 6)]


def test_the_status_documents_allocation_fits_gpus_of_80_gb():
    """Status document, "GPU Allocation Strategy": four GPUs update both agents."""
    found = loads("allocation")
    assert found["update the generator and the optimizer"].state_bytes == 2 * B * 16 // 4
    assert found["compare the generator and the optimizer with the reference"].count == 1
    assert all(load.fits(80 * GIB) for load in found.values())


def test_under_adapters_lies_a_whole_model_in_float32():
    found = loads("requirements", "model.lora_rank=32")
    assert found["update the generator and the optimizer"].state_bytes == 2 * B * 4 // 2
    assert host_bytes(load_config("requirements", ["model.lora_rank=32"]), SEVEN) == 0, "it is its own reference"


def test_fine_tuning_holds_one_whole_agent_on_one_gpu_or_its_adapters():
    def tuned(*changes):
        return tuning_load(load_config("requirements", changes), SEVEN)

    assert tuned() is None
    assert (tuned("sft.examples=9").count, tuned("sft.examples=9").state_bytes) == (1, 16 * B)
    assert not tuned("sft.examples=9").fits(80 * GIB)
    lora = tuned("sft.examples=9", "sft.method=lora")
    assert 2 * B < lora.state_bytes < 2.2 * B
    assert lora.fits(24 * GIB)
    assert tuned("sft.examples=9", "sft.method=lora", "sft.lora.rank=64").state_bytes > lora.state_bytes
    qlora = tuned("sft.examples=9", "sft.method=qlora")
    # By hand of Qwen2.5-Coder-7B: 6.5 billion in linear layers at 4.127 bits, 1.09 billion in embeddings and head.
    assert 6.5e9 * 4.127 / 8 + 2 * 1.09e9 <= qlora.state_bytes < 0.6 * lora.state_bytes
    assert qlora.fits(10 * GIB)
    assert tuning_load(load_config("cpu-demo", ["sft.examples=9"]), SEVEN) is None


def test_a_tester_is_tuned_on_the_gpu_and_answers_on_the_cpu():
    larger = {**SEVEN, "tester": 2 * B}
    tuned = load_config("requirements", ["sft.examples=9", "agents.tester.tuned=true"])
    assert tuning_load(tuned, larger).state_bytes == 2 * B * 16
    assert host_bytes(tuned, larger) == host_bytes(load_config("requirements"), SEVEN) + 2 * B * 4
    asked = load_config("requirements", ["sft.examples=9", "agents.tester={}"])
    assert tuning_load(asked, larger).state_bytes == B * 16, "it is not tuned"
    assert [load.state_bytes for load in gpu_loads(asked, larger)] == [
        load.state_bytes for load in gpu_loads(load_config("requirements"), SEVEN)
    ]


@pytest.mark.parametrize(
    ("parameters", "rank", "adapters"),
    [
        # Counted on the models by peft, all linear layers but the head: SmolLM2-135M, Qwen2.5-Coder-7B.
        (134_515_008, 16, 4_884_480),
        (7_615_616_512, 32, 80_740_352),
    ],
)
def test_adapters_are_counted_from_above(parameters, rank, adapters):
    assert adapters <= adapter_parameters(parameters, rank) < 3 * adapters


def test_transformers_as_the_server_holds_a_second_copy():
    config = load_config("one-gpu", ["rollout.name=hf", "model.name=Qwen/Qwen2.5-Coder-7B-Instruct"])
    (load,) = gpu_loads(config, SEVEN)
    assert load == GpuLoad("update the generator and generate", 1, B * 16 + B * 2)


@given(st.integers(0, 200 * GIB), st.floats(0.05, 0.95), st.integers(0, 80 * GIB), st.integers(1, 2), st.booleans())
def test_the_least_gpu_is_the_smallest_that_fits(state, share, weights, servers, by_turns):
    load = GpuLoad("", 1, state, share, weights, servers, by_turns)
    least = load.least_bytes
    if least is None:
        assert not any(load.fits(size * GIB) for size in (1, 100, 10_000))
        return
    assert load.fits(least + 1024)
    assert least < 1 << 20 or not load.fits(int(least * 0.999))


@pytest.mark.parametrize(("name", "gib"), [("critique", 44.7), ("one-gpu", 79), ("allocation", 79)])
def test_a_ready_file_fits_the_gpus_that_it_is_for(name, gib):
    config = load_config(name)
    parameters = dict.fromkeys(config.roles, int(1.5e9) if name == "one-gpu" else B)
    assert all(load.fits(int(gib * GIB)) for load in gpu_loads(config, parameters))
