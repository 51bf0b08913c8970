"""Two runners that obey `config.script`. They differ in their manifest only: `stubborn` has no `interrupt`."""

from script import ScriptRunner

from bollard.sdk import runner


@runner(name="scripted", capabilities=["interrupt", "steering"])
class Scripted(ScriptRunner):
    """Does what its script says."""


@runner(name="stubborn")
class Stubborn(ScriptRunner):
    """The same, declared without `interrupt`."""
