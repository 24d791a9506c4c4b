// ESM, which the other file imports.
import { Client } from "taskengine-handler/client";

export { Permanent } from "taskengine-handler";

await new Client("localhost:1").close();
