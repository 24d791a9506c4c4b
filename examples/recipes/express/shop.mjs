// A web service that charges cards by tasks: it adds a task for each order, runs the tasks in its own process, and says
// what became of them.

import { once } from "node:events";
import express from "express";
import { work } from "taskengine-handler";
import { BacklogFull, Client, ClientError, DeadlineExceeded, Invalid, NotDone, NotFound, Unavailable } from "taskengine-handler/client";

const nodes = (process.env.TASKENGINE_ADDRESS ?? "127.0.0.1:7420").split(",");
const tasks = new Client(nodes, { timeout: 5_000 });
const app = express();
app.use(express.json());

// It may be repeated: the id of the order is the key of its task.
app.post("/orders", async ({ body }, response) => {
  if (typeof body?.id !== "string" || body.id === "" || !(body.cents > 0)) {
    return response.status(400).json({ error: "an order has an id and cents" });
  }
  const { id } = await tasks.submit("charge", body, { key: body.id });
  response.status(202).json({ task: id });
});

// It waits up to 10 s for what became of the order.
app.get("/orders/:id", async ({ params }, response) => {
  const { id } = await tasks.find("charge", params.id);
  try {
    const { receipt } = await tasks.result(id, undefined, { timeout: 10_000 });
    response.json({ state: "done", receipt });
  } catch (error) {
    if (error instanceof NotDone) return response.json({ state: error.state, error: error.message });
    if (error instanceof DeadlineExceeded) return response.status(202).json({ state: "running" });
    throw error;
  }
});

app.use((error, _request, response, next) => {
  if (response.headersSent) return next(error);
  const status = statusOf(error);
  if (status === 503) response.set("Retry-After", "1");
  response.status(status).json({ error: error.message });
});

function statusOf(error) {
  if (error instanceof Invalid || error.status === 400) return 400;
  if (error instanceof NotFound) return 404;
  if (error instanceof BacklogFull || error instanceof Unavailable || error instanceof DeadlineExceeded) return 503;
  return error instanceof ClientError ? 502 : 500;
}

// It may run twice, after a crash: a payment service gets the order's id, by which it knows the second one.
const charge = (task) => ({ receipt: `R-${task.json().id}` });

const ending = new AbortController();
for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => ending.abort());
const working = work({ charge }, { addresses: nodes, signal: ending.signal });
const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
await once(server, "listening");
console.log(`listening on 127.0.0.1:${server.address().port}`);

await once(ending.signal, "abort");
server.close(); // requests that are under way are answered
await Promise.all([once(server, "close"), working]); // and tasks that have begun
await tasks.close();
console.log("closed");
