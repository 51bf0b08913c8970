"""Two runners that execute `config.script`. They differ in their manifest only: `stubborn` has no `interrupt`."""

from script import ScriptRunner

from bollard.sdk import runner


@runner(name="scripted", capabilities=["interrupt", "steering"])
class Scripted(ScriptRunner):
    """Executes its script."""


@runner(name="stubborn")
class Stubborn(ScriptRunner):
    """The same, declared without `interrupt`."""
