/** One server-sent event. */
export interface SseEvent {
  id: string | undefined;
  event: string;
  data: string;
}

/** Parses a stream of server-sent events chunk by chunk. Comments are dropped; half an event at the end is never emitted. */
export class SseParser {
  private rest = "";
  private id: string | undefined;
  private event = "";
  private data: string[] = [];

  push(chunk: string): SseEvent[] {
    const lines = (this.rest + chunk).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const events: SseEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0) events.push({ id: this.id, event: this.event || "message", data: this.data.join("\n") });
        this.id = undefined;
        this.event = "";
        this.data = [];
      } else {
        this.field(line);
      }
    }
    return events;
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") this.id = value;
    else if (name === "event") this.event = value;
    else if (name === "data") this.data.push(value);
  }
}
