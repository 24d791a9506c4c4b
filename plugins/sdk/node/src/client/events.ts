// The stream of changes of tasks.

import { create, type MessageShape } from "@bufbuild/protobuf";
import {
  EventGapSchema,
  type EventsResponseSchema,
  SilentNodeSchema,
  type TaskEventSchema,
  TaskSchema,
  TaskService,
} from "../gen/taskengine_pb.js";
import { checkedFilter } from "./calls.js";
import type { TaskEvent } from "./messages.js";
import { duration, toNative } from "./native.js";
import type { EventFilter } from "./options.js";
import { LASTS, StreamCalls } from "./streams.js";

type Answer = MessageShape<typeof EventsResponseSchema>;

export abstract class EventCalls extends StreamCalls {
  /**
   * Changes of tasks as the nodes make them, until the loop ends or the signal is aborted. When its node does not answer, it goes
   * on at another one. To go on later, keep the cursor of the last event that was processed: none is lost without a gap,
   * and an event may come again.
   */
  async *events(
    filter: EventFilter = {},
    options: { signal?: AbortSignal } = {},
  ): AsyncGenerator<TaskEvent, void, undefined> {
    const { where = "", types = [], catchUp = false, cursor = "" } = checkedFilter(filter);
    const following = {
      method: TaskService.method.events,
      cursor,
      request: () => ({
        ...{ where, types: [...types], catchUp, cursor: following.cursor },
        timeout: duration(LASTS),
      }),
      *items(answer: Answer): Generator<TaskEvent> {
        for (const event of eventsOf(answer, following.cursor)) {
          following.cursor = event.cursor;
          yield event;
        }
        following.cursor = answer.cursor;
      },
    };
    yield* this.follow(following, options.signal);
  }
}

/** The events of a response. A gap has the cursor from before it. */
function* eventsOf({ silent, gap, events, cursor }: Answer, before: string): Generator<TaskEvent> {
  const nodes = silent.map((node) => toNative(SilentNodeSchema, node));
  if (nodes.length > 0) yield { kind: "silent", nodes, cursor: before };
  if (gap) {
    const { from, until, text } = toNative(EventGapSchema, gap);
    yield { kind: "gap", text, ...(from && { from }), ...(until && { until }), cursor: before };
  }
  for (const event of events) yield changeOf(event, cursor);
}

function changeOf(event: MessageShape<typeof TaskEventSchema>, cursor: string): TaskEvent {
  const { task = create(TaskSchema), at, fromStore } = event;
  return {
    kind: "task",
    task: toNative(TaskSchema, task),
    ...(at && { at: new Date(Number(at.seconds) * 1000 + Math.floor(at.nanos / 1e6)) }),
    fromStore,
    cursor: event.cursor || cursor,
  };
}
