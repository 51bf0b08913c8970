from typing import Annotated, Literal

from pydantic import BaseModel, Field

from bollard.sdk import Form, KnowledgeBases, ModelSelector, Prompt, form_of, parse_config


class Settings(BaseModel):
    model: ModelSelector = None
    prompt: Prompt = "Answer briefly."
    bases: KnowledgeBases = ()
    tone: Annotated[Literal["formal", "casual"], Form(label={"en_US": "Tone", "zh_Hans": "语气"})] = "formal"
    tries: int = Field(default=2, ge=1, le=5)


assert [item.type for item in form_of(Settings)][:3] == [
    "llm-model-selector",
    "prompt-editor",
    "knowledge-base-multi-selector",
]
assert parse_config(Settings, {"tries": 3}).tries == 3
