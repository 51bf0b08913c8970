// Uses a client that @hey-api/openapi-ts generated: node smoke.js URL TOKEN
import assert from 'node:assert/strict';

import { client } from './client/client.gen.js';
import { createRun, getAgent, getRun, listAgents, saveBinding } from './client/sdk.gen.js';

const [url, token] = process.argv.slice(2);
// The token is for the scheme `bearer` alone: a session cookie would need an Origin header.
client.setConfig({ baseUrl: url, auth: (scheme) => (scheme.scheme === 'bearer' ? token : undefined) });

const agents = await listAgents();
assert.ok(agents.data?.items.some((agent) => agent.agent_id === 'demo'));
const agent = await getAgent({ path: { agent_id: 'demo' } });
assert.equal(agent.data?.policy.concurrency?.mode, 'queue');

const saved = await saveBinding({
  path: { binding_id: 'pushes' },
  body: { binding_id: 'pushes', agent_id: 'demo', scope: { channel: 'git' }, filters: [] },
});
assert.equal(saved.data?.scope?.channel, 'git', JSON.stringify(saved.error));

const accepted = await createRun({ body: { agent: 'demo', input: { text: 'count 3' } } });
const runId = accepted.data?.run_id;
assert.ok(runId);
assert.equal((await getRun({ path: { run_id: runId } })).data?.agent_id, 'demo');
const missing = await getRun({ path: { run_id: 'run_missing' } });
assert.equal(missing.error?.error.code, 'not_found');
console.log('the generated TypeScript client works');
