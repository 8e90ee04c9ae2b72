"""The simulator computes what an H200 does: every form, bit by bit or within the documented error."""

import pytest
from conformance import simulation
from conformance.comparison import Comparison
from conformance.modules import kernels
from conformance.recording import Recording
from conformance.report import Report
from conformance.suite import forms

_FORMS_EACH = 48
_GROUPS = list(kernels(forms(), _FORMS_EACH))


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.load()


@pytest.mark.parametrize(
    "group", _GROUPS, ids=[f"{n}-{group.places[0].form.text.split()[0]}" for n, group in enumerate(_GROUPS)]
)
def test_the_simulator_computes_what_the_gpu_does(group, recording, simulator):
    recorded = {place.form: recording.results(place.form) for place in group.places}
    gpu = {form: found for form, found in recorded.items() if not isinstance(found, str)}
    runs, _ = simulation.known(gpu)
    if not runs:
        pytest.skip("the simulator knows none of these forms, or the recording has none of them")
    report = Report(recording.machine)
    for form, words in simulation.simulated(simulator, runs, _FORMS_EACH):
        report.add(Comparison(form, gpu[form], words))
    assert report.compared == len(runs)
    assert not report.differences, report.text()
