// The lines of logs of tasks.

import type { MessageShape } from "@bufbuild/protobuf";
import {
  LogLineSchema,
  RanElsewhereSchema,
  SilentNodeSchema,
  type TaskLogsResponseSchema,
  TaskService,
} from "../gen/taskengine_pb.js";
import { DocumentCalls } from "./documents.js";
import type { LogEntry } from "./messages.js";
import { duration, toNative } from "./native.js";
import type { LogOptions } from "./options.js";
import { LASTS } from "./streams.js";

type Answer = MessageShape<typeof TaskLogsResponseSchema>;

export abstract class LogCalls extends DocumentCalls {
  /**
   * The lines that handlers have logged about a task, the oldest attempt first, as far as the nodes keep them. If lines may
   * be missing, the last entry says which. Throws NotFound if there is neither a task nor a line. When its node does not
   * answer, it goes on at another one.
   */
  async *logs(
    id: string,
    { attempt = 0, follow = false, cursor = "", signal }: LogOptions = {},
  ): AsyncGenerator<LogEntry, void, undefined> {
    const shown = new Set<number>(); // the attempts of which a line has come
    const following = {
      method: TaskService.method.taskLogs,
      cursor,
      isOver: false,
      request: () => ({ id, attempt, follow, cursor: following.cursor, timeout: duration(LASTS) }),
      *items(answer: Answer): Generator<LogEntry> {
        for (const [i, line] of answer.lines.entries()) {
          shown.add(line.attempt);
          if (i === answer.lines.length - 1) following.cursor = answer.cursor;
          yield { kind: "line", line: toNative(LogLineSchema, line), cursor: following.cursor };
        }
        following.cursor = answer.cursor;
        following.isOver = answer.complete;
        const elsewhere = answer.elsewhere.filter((ran) => !shown.has(ran.attempt));
        if (!answer.complete || (elsewhere.length === 0 && answer.silent.length === 0)) return;
        yield {
          kind: "missing",
          elsewhere: elsewhere.map((ran) => toNative(RanElsewhereSchema, ran)),
          silent: answer.silent.map((node) => toNative(SilentNodeSchema, node)),
          cursor: answer.cursor,
        };
      },
    };
    yield* this.follow(following, signal);
  }
}
