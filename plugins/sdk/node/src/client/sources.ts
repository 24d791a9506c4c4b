// The calls about sources of tasks.

import { SourceMoveSchema, SourceSchema, TaskService } from "../gen/taskengine_pb.js";
import { sourceOf } from "./calls.js";
import type { Source, SourceMove } from "./messages.js";
import { timestamp, toNative } from "./native.js";
import type { CallOptions, SourceSeek } from "./options.js";
import { ScheduleCalls } from "./schedules.js";

export abstract class SourceCalls extends ScheduleCalls {
  /** The sources of tasks in the configuration of the node, by name, without their partitions. */
  async sources(options?: CallOptions): Promise<Source[]> {
    const { sources } = await this.call(TaskService.method.listSources, () => ({}), options);
    return sources.map((source) => toNative(SourceSchema, source));
  }

  /** A source with its partitions. */
  async source(name: string, options?: CallOptions): Promise<Source> {
    return sourceOf(await this.call(TaskService.method.getSource, () => ({ name }), options));
  }

  /** Stops a source from reading until resumeSource. It is carried out when orders of source() is 0. */
  async pauseSource(name: string, reason = "", options?: CallOptions): Promise<Source> {
    return sourceOf(await this.call(TaskService.method.pauseSource, () => ({ name, reason }), options));
  }

  /** Ends a pause. It is carried out when orders of source() is 0. */
  async resumeSource(name: string, options?: CallOptions): Promise<Source> {
    return sourceOf(await this.call(TaskService.method.resumeSource, () => ({ name }), options));
  }

  /**
   * Moves the positions of a source, and returns where each partition goes; none if the brokers do not say that now. With
   * dryRun it only returns that. Records that are read again become tasks once more.
   */
  async seekSource(
    name: string,
    { topic = "", partition, begin, end, time, offset, dryRun = false, ...options }: CallOptions & SourceSeek,
  ): Promise<SourceMove[]> {
    const request = () => {
      const targets = [begin, end, time, offset].filter((target) => target !== undefined && target !== false);
      if (targets.length !== 1) throw new TypeError("give one of begin, end, time and offset");
      const to = begin
        ? ({ case: "begin", value: true } as const)
        : end
          ? ({ case: "end", value: true } as const)
          : time !== undefined
            ? ({ case: "time", value: timestamp(time) } as const)
            : ({ case: "offset", value: BigInt(offset ?? 0) } as const);
      return { name, topic, dryRun, to, ...(partition !== undefined && { partition }) };
    };
    const { moves } = await this.call(TaskService.method.seekSource, request, options, dryRun);
    return moves.map((move) => toNative(SourceMoveSchema, move));
  }
}
