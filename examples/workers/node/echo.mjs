// The simplest worker: it says back what it hears.

import { serve } from './worker.mjs';

serve({
  plugin: { author: 'example', name: 'echo', version: '1.0.0' },
  runners: [
    {
      name: 'default',
      label: { en_US: 'Echo', zh_Hans: '回声' },
      capabilities: { streaming: true },
      async *run(ctx) {
        for (const word of `you said: ${ctx.input.text ?? ''}`.split(/(?<= )/)) yield ctx.delta(word);
      },
    },
  ],
});
