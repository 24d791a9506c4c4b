// Measures how many tasks the client adds in a second: node bench/submit.mjs ADDRESS [--in-flight N] [--tasks N]
//
// It needs `npm run build`, and prints a line of JSON. The node keeps the tasks. cmd/taskengine/e2e has a benchmark that
// compares the clients: go test ./cmd/taskengine/e2e -run '^$' -bench Clients -benchtime 50000x

import { parseArgs } from "node:util";
import { Client } from "../dist/client/index.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "in-flight": { type: "string", default: "512" },
    tasks: { type: "string", default: "50000" },
  },
});
const [address] = positionals;
const inFlight = Number(values["in-flight"]);
const each = Math.floor(Number(values.tasks) / inFlight);
if (!address || !(each >= 1)) {
  console.error("usage: node bench/submit.mjs ADDRESS [--in-flight N] [--tasks N], with a task for each in flight");
  process.exit(2);
}

const payload = Buffer.from(`"${"x".repeat(254)}"`);
const client = new Client(address);

async function submit(tasks) {
  for (let i = 0; i < tasks; i++) await client.submit("shout", payload);
}

await submit(100);
const before = process.cpuUsage();
const begin = performance.now();
await Promise.all(Array.from({ length: inFlight }, () => submit(each)));
const seconds = (performance.now() - begin) / 1000;
const { user, system } = process.cpuUsage(before);
await client.close();
const tasks = inFlight * each;
console.log(JSON.stringify({ inFlight, tasks, seconds, rate: tasks / seconds, cpu_us: (user + system) / tasks }));
